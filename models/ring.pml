/* The ring protocol: partials, bits, credits, epochs. docs/protocol.md says what is proved; tests/model/test_ring.sh includes
 * this file below its parameters and explores every interleaving.
 *
 * A CTA is two processes: `work` waits for upstream's bits, reads receive slots and hands tiles on; `send` stores them into
 * downstream's slots, drains, sets bits, and leaves the launch. Whatever only one process can see is one step with what
 * comes next; a step that waits may be late by any time, so a read, say, ends in one step at any time after its bit.
 *
 * What must hold: a store finds its slot read (empty), a read finds the tag of its own launch, owner and tile, no bit is set
 * twice, and nobody waits for ever (an invalid end state).
 *
 * Parameters: R ranks, C CTAs a rank, K stores in flight and buffers (up to 4), E launches, TILES(e, o) tiles of owner o in launch e
 * (owner 0 has most), TILES_MAX, GROUP tiles a bit, SHARED 1: ring.place shared, INTERLEAVE lag in waves of C tiles or 0,
 * LATE 1: stores land at any time and in any order, 0: as they are issued, which is the worst for who still reads; POLICY
 * and FAULT as below. */

#define PER_TILE 1 /* wait for each store before the next                                             */
#define IDLE     2 /* `ring`: a bit is set when there is nothing to issue, or before                  */
#define OWNER    3 /* a simple loop that drains with K in flight and at the boundary of an owner      */
#define NEVER    4 /* the simple loop with `flush: never`                                             */
#define LANES    5 /* `lane_per_stage`: each store is drained by its own thread. With an outbox a tile
                    * has landed when the last of its chunks has: SHARED 0 and LATE 1 cover that      */

#define NO_CREDIT    1 /* stores do not wait for downstream to have left the launch before            */
#define CREDIT_EQUAL 2 /* the credit is awaited with ==, on entering: also by who sends nothing       */
#define CREDIT_ONE   3 /* only CTA 0 waits for the credit                                             */
#define CREDIT_EARLY 4 /* the credit is sent before the mask is cleared                               */
#define CLEAR_FIRST  5 /* the first CTA that leaves clears the mask, not the last                     */
#define CLEAR_START  6 /* the mask is cleared on entering, not on leaving                             */
#define BIT_EARLY    7 /* a bit is set when the store was read, before it has landed                  */
#define ENTRY        8 /* no fault: the credit is awaited with >= on entering                         */
#define FIRST_EQUAL  9 /* no fault: == where the credit is awaited, before a thread's first store     */

#define OWNER_OF(r, t) (((r) + 1 + (t)) % R)
#define UP(r)          (((r) + 1) % R)
#define DOWN(r)        (((r) + R - 1) % R)
#define SLOTS          ((R - 1) * TILES_MAX)
#define SLOT(e, t, j)  (((t)-1) * TILES(e, 0) + (j)) /* t: the receiver's turn */
#define BIT(e, t, j)   (((t)-1) * ((TILES(e, 0) + GROUP - 1) / GROUP) + (j) / GROUP)
#define TAG(e, o, j)   (1 + ((e)*R + (o)) * TILES_MAX + (j))
#define REST(e, o, j)  (TILES(e, o) - (j) / GROUP * GROUP)
#define IN_GROUP(e, o, j) (REST(e, o, j) < GROUP -> REST(e, o, j) : GROUP)

#define CTA(r, c)        ((r)*C + (c))
#define LAUNCH(e, r, c)  (((e)*R + (r)) * C + (c))
#define ITEM(e, r, c, i) (LAUNCH(e, r, c) * R * TILES_MAX + (i))

/* Constant once `init` has run: what a CTA works through, and what of it the sending thread sees. turn * 16 + tile. */
hidden byte queue[E * R * C * R * TILES_MAX];
hidden byte queued[E * R * C];
hidden byte sends[E * R * C * R * TILES_MAX];
hidden byte sending[E * R * C];

byte slot[R * SLOTS];  /* tag of what lies there and was not read; 0: nothing */
short mask[R];
byte credit[R];        /* written by downstream                              */
byte epoch[R];
byte departed[R];
byte made[R * C];      /* tiles handed to `send` in this launch              */
byte issued[R * C];    /* stores issued in this launch                       */
bool worked[R * C];    /* `work` has come to the end of its queue            */
byte lane[R * C * K];  /* 0 free, 1 in flight, 2 landed, 3 signalled too early */
#if GROUP > 1
byte landed[R * SLOTS]; /* counters of groups, by the sender's rank and the bit */
#endif

#define TURN_OF(item) ((item) / 16)
#define TILE_OF(item) ((item) % 16)

/* ---------------------------------------------------------------- work */

#define NEXT     queue[ITEM(e, r, c, i)]
#define NEXT_BIT ((mask[r] >> BIT(e, TURN_OF(NEXT), TILE_OF(NEXT))) & 1)
#define NEXT_IN  slot[r * SLOTS + SLOT(e, TURN_OF(NEXT), TILE_OF(NEXT))]
#define RUNS     (e < E && epoch[r] == e) /* launches of a rank are ordered by its stream */

#if SHARED
/* The buffer of tile i is that of tile i - K, and free once that was issued and drained. */
#define ROOM     (i < K || (issued[CTA(r, c)] + K > i && lane[CTA(r, c) * K + i % K] == 0))
#define GOES_ON  true
#else
/* The outbox has K slots, each free once what was in it has left. */
#define ROOM     (TURN_OF(NEXT) == R - 1 || made[CTA(r, c)] < issued[CTA(r, c)] + K)
#define GOES_ON  (TURN_OF(NEXT) < R - 1)
#endif

/* Hands the tile on. A START tile that follows and finds room is handed on with it, and the end of the queue is noticed at
 * once: only this CTA's `send` sees either, and it may be late. */
inline hand_on() {
    do
    :: true ->
        if
        :: GOES_ON -> made[CTA(r, c)]++
        :: else
        fi;
        i++;
        if
        :: i < queued[LAUNCH(e, r, c)] && TURN_OF(NEXT) == 0 && ROOM
        :: else -> break
        fi
    od;
    if
    :: i == queued[LAUNCH(e, r, c)] -> end_queue()
    :: else
    fi
}

inline end_queue() {
    worked[CTA(r, c)] = true;
    i = 0;
    e++
}

proctype work(byte r; byte c) {
    byte e, i;
    do
    :: d_step {
           RUNS && i < queued[LAUNCH(e, r, c)] && ROOM && TURN_OF(NEXT) == 0 -> hand_on()
       }
    :: d_step {
           RUNS && i < queued[LAUNCH(e, r, c)] && ROOM && TURN_OF(NEXT) > 0 && NEXT_BIT ->
           assert(NEXT_IN == TAG(e, OWNER_OF(r, TURN_OF(NEXT)), TILE_OF(NEXT)));
           NEXT_IN = 0;
           hand_on()
       }
    :: d_step {
           RUNS && queued[LAUNCH(e, r, c)] == 0 -> end_queue()
       }
    :: e == E -> break
    od
}

/* ---------------------------------------------------------------- send */

#define ISSUED   issued[CTA(r, c)]
#define COUNT    sending[LAUNCH(e, r, c)]
#define SENT(i)  sends[ITEM(e, r, c, i)]
#define TURN(i)  TURN_OF(SENT(i))
#define TILE(i)  TILE_OF(SENT(i))
#define STATE(x) lane[CTA(r, c) * K + (x)]
#define OF_LANE(x) (ISSUED - 1 - ((ISSUED - 1 + K - (x)) % K)) /* its latest store: lanes are used in turn */
#define BOUNDARY (ISSUED == COUNT || (ISSUED > 0 && TURN(ISSUED) != TURN(ISSUED - 1)))
#define FULL     (ISSUED - drained == K)

#if POLICY == PER_TILE
#define MAY_ISSUE (ISSUED == drained)
#define MAY_DRAIN true
#elif POLICY == OWNER
#define MAY_ISSUE (ISSUED == drained || !BOUNDARY)
#define MAY_DRAIN (FULL || BOUNDARY)
#elif POLICY == NEVER
#define MAY_ISSUE true
#define MAY_DRAIN (FULL || ISSUED == COUNT)
#else
#define MAY_ISSUE true
#define MAY_DRAIN true
#endif

#if FAULT == NO_CREDIT
#define CREDIT true
#elif FAULT == CREDIT_ONE
#define CREDIT (c > 0 || credit[r] >= e)
#elif FAULT == FIRST_EQUAL
#define CREDIT (checked || credit[r] == e)
#else
#define CREDIT (credit[r] >= e)
#endif

#if FAULT == CREDIT_EQUAL
#define ENTER (credit[r] == e)
#elif FAULT == ENTRY
#define ENTER (credit[r] >= e)
#else
#define ENTER true
#endif
#if FAULT == CREDIT_EQUAL || FAULT == ENTRY || FAULT == CLEAR_START
#define ENTERED entered
#else
#define ENTERED true
#endif
inline set_bit(i) {
    if
    :: TURN(i) < R - 1 ->
        bit_index = BIT(e, TURN(i) + 1, TILE(i));
#if GROUP > 1
        landed[r * SLOTS + bit_index]++;
        if
        :: landed[r * SLOTS + bit_index] == IN_GROUP(e, OWNER_OF(r, TURN(i)), TILE(i)) ->
            landed[r * SLOTS + bit_index] = 0;
            assert(!((mask[DOWN(r)] >> bit_index) & 1));
            mask[DOWN(r)] = mask[DOWN(r)] | (1 << bit_index)
        :: else
        fi;
#else
        assert(!((mask[DOWN(r)] >> bit_index) & 1));
        mask[DOWN(r)] = mask[DOWN(r)] | (1 << bit_index);
#endif
        bit_index = 0
    :: else
    fi
}

inline land(i) {
    if
    :: TURN(i) < R - 1 ->
        assert(slot[DOWN(r) * SLOTS + SLOT(e, TURN(i) + 1, TILE(i))] == 0);
        slot[DOWN(r) * SLOTS + SLOT(e, TURN(i) + 1, TILE(i))] = TAG(e, OWNER_OF(r, TURN(i)), TILE(i))
    :: else
    fi
}

#if FAULT == BIT_EARLY
#define LANDED (STATE(0) == 0 && STATE(K - 1) == 0) /* K is 1 or 2 here */
#define DRAIN(x) \
    :: d_step { STATE(x) == 1 && MAY_DRAIN -> set_bit(OF_LANE(x)); STATE(x) = 3; drained++ } \
    :: d_step { STATE(x) == 3 -> land(OF_LANE(x)); STATE(x) = 0 }
#else
#define LANDED true
#if LATE
#define LAND(x) :: d_step { STATE(x) == 1 -> land(OF_LANE(x)); STATE(x) = 2 }
#else
#define LAND(x)
#endif
#if POLICY == LANES
#define DRAIN(x) LAND(x) :: d_step { STATE(x) == 2 -> set_bit(OF_LANE(x)); STATE(x) = 0; drained++ }
#else
#define DRAIN(x) \
    LAND(x) :: d_step { STATE(x) == 2 && drained % K == x && MAY_DRAIN -> set_bit(drained); STATE(x) = 0; drained++ }
#endif
#endif

proctype send(byte r; byte c) {
    byte e, drained, bit_index;
    bool entered, checked, last;
    do
#if FAULT == CREDIT_EQUAL || FAULT == ENTRY || FAULT == CLEAR_START
    :: d_step {
           RUNS && !entered && ENTER ->
           entered = true;
#if FAULT == CLEAR_START
           if
           :: c == 0 -> mask[r] = 0
           :: else
           fi
#endif
       }
#endif
    :: d_step {
           RUNS && ENTERED && ISSUED < made[CTA(r, c)] && STATE(ISSUED % K) == 0 && MAY_ISSUE &&
               (TURN(ISSUED) == R - 1 || CREDIT) ->
#if FAULT == FIRST_EQUAL
           checked = (checked || TURN(ISSUED) < R - 1);
#endif
           ISSUED++;
#if LATE || FAULT == BIT_EARLY
           STATE((ISSUED - 1) % K) = 1
#else
           land(ISSUED - 1);
           STATE((ISSUED - 1) % K) = 2
#endif
       }
    DRAIN(0)
#if K > 1
    DRAIN(1)
#endif
#if K > 2
    DRAIN(2)
#endif
#if K > 3
    DRAIN(3)
#endif
    :: d_step { /* the CTA's exit barrier, then its departure */
           RUNS && ENTERED && !last && worked[CTA(r, c)] && drained == COUNT && LANDED ->
           worked[CTA(r, c)] = false;
           made[CTA(r, c)] = 0;
           ISSUED = 0;
           drained = 0;
           entered = false;
           checked = false;
           departed[r]++;
           last = departed[r] == C;
#if FAULT == CLEAR_FIRST
           if
           :: departed[r] == 1 -> mask[r] = 0
           :: else
           fi;
#endif
           if
           :: last -> credit[UP(r)] = e + (FAULT == CREDIT_EARLY)
           :: else -> e++
           fi
       }
    :: d_step { /* the last CTA of the launch */
           last ->
           if
           :: FAULT != CLEAR_FIRST && FAULT != CLEAR_START -> mask[r] = 0
           :: else
           fi;
           last = false;
           departed[r] = 0;
           credit[UP(r)] = e + 1;
           epoch[r] = e + 1; /* the kernel ends: the next launch may start */
           e++
       }
    :: e == E -> break
    od
}

/* ---------------------------------------------------------------- the order of tiles, as generator/tileorder.h defines it */

inline append(e, r, t, j) {
    cta = position % C;
    queue[ITEM(e, r, cta, queued[LAUNCH(e, r, cta)])] = (t)*16 + (j);
    queued[LAUNCH(e, r, cta)]++;
    if
    :: SHARED || (t) < R - 1 ->
        sends[ITEM(e, r, cta, sending[LAUNCH(e, r, cta)])] = (t)*16 + (j);
        sending[LAUNCH(e, r, cta)]++
    :: else
    fi;
    position++
}

init {
    byte e, r, t, j, key, position, cta;
    atomic {
        for (e : 0 .. E - 1) {
            for (r : 0 .. R - 1) {
                position = 0;
                for (key : 0 .. (INTERLEAVE -> TILES_MAX + R * INTERLEAVE : 0)) {
                    for (t : 0 .. R - 1) {
                        for (j : 0 .. TILES_MAX - 1) {
                            if
                            :: j < TILES(e, OWNER_OF(r, t)) && (INTERLEAVE == 0 || j / C + t * INTERLEAVE == key) -> append(e, r, t, j)
                            :: else
                            fi
                        }
                    }
                }
            }
        }
        for (r : 0 .. R - 1) {
            for (t : 0 .. C - 1) {
                run work(r, t);
                run send(r, t)
            }
        }
    }
}
