#include "runtime/fault.h"

#include <inttypes.h>

#include "generator/tileorder.h"

static const char *const roles[GRS_ROLE_COUNT] = {"loader", "prefetcher", "storer", "sender", "math warp", "issuer"};

enum word_kind { WORD_PHASE, WORD_BITS, WORD_COUNT };

static const struct {
    const char *what;
    int peer; /* hops to the rank that is waited for: +1 upstream, -1 downstream, 0 this rank */
    enum word_kind word;
} waits[GRS_WAIT_COUNT] = {
    [GRS_WAIT_NONE] = {"nothing", 0, WORD_COUNT},
    [GRS_WAIT_STAGE_FREE] = {"a free stage of A and B (the math warps still read it)", 0, WORD_PHASE},
    [GRS_WAIT_STAGE_FULL] = {"A and B", 0, WORD_PHASE},
    [GRS_WAIT_TILE_FREE] = {"the tile buffer to be stored", 0, WORD_PHASE},
    [GRS_WAIT_TILE_READY] = {"the tile buffer with upstream's partial", 0, WORD_PHASE},
    [GRS_WAIT_TILE_FULL] = {"the math warps to finish the tile", 0, WORD_PHASE},
    [GRS_WAIT_UPSTREAM] = {"a partial", 1, WORD_BITS},
    [GRS_WAIT_OUTBOX_FREE] = {"a free outbox tile (the sender holds every one)", 0, WORD_PHASE},
    [GRS_WAIT_OUTBOX_FULL] = {"a tile to send", 0, WORD_PHASE},
    [GRS_WAIT_CREDIT] = {"a credit", -1, WORD_COUNT},
    [GRS_WAIT_CHUNK] = {"a chunk of the outbox", 0, WORD_PHASE},
    [GRS_WAIT_LINK] = {"its turn on the link", 0, WORD_COUNT},
    [GRS_WAIT_ACCUM_FREE] = {"a free accumulator (the math warps still read every one)", 0, WORD_PHASE},
    [GRS_WAIT_ACCUM_FULL] = {"the products of the tile", 0, WORD_PHASE},
};

const char *fault_role_name(enum grs_role role) {
    return roles[role];
}

const char *fault_wait_name(enum grs_wait wait) {
    return waits[wait].what;
}

bool fault_complete(const grs_wait_record *record) {
    return __atomic_load_n(&record->complete, __ATOMIC_ACQUIRE) != 0;
}

static void tile_text(const grs_wait_record *record, int ring, const struct fault_launch *launch, struct buf *out) {
    struct tileorder order;
    int turn;
    int64_t tile;
    if (record->owner >= 0) {
        buf_printf(out, "owner %d, tile %d", record->owner, record->tile);
        return;
    }
    if (launch->plan != NULL && record->position >= 0 && record->rank >= 0 && record->rank < ring) {
        tileorder_init(launch->plan, launch->M, record->rank, launch->wave, &order);
        if (record->position < order.total) {
            tileorder_at(&order, record->position, &turn, &tile);
            buf_printf(out, "owner %d, tile %" PRId64 ", position %" PRId64, tileorder_owner(&order, turn), tile,
                       record->position);
            return;
        }
    }
    if (record->position >= 0) {
        buf_printf(out, "position %" PRId64, record->position);
    } else {
        buf_puts(out, "no tile in hand");
    }
}

void fault_text(const grs_wait_record *record, int ring, const struct fault_launch *launch, struct buf *out) {
    const char *role = record->role < GRS_ROLE_COUNT ? roles[record->role] : "unknown role";
    unsigned wait = record->wait < GRS_WAIT_COUNT ? record->wait : GRS_WAIT_NONE;
    buf_printf(out, "rank %d: %s waited ", record->rank, role);
    buf_fixed(out, (double)record->waited_ns * 1e-9, 1);
    buf_printf(out, " s for %s", waits[wait].what);
    if (waits[wait].peer != 0 && ring > 0) {
        buf_printf(out, " from rank %d (%s)", (record->rank + waits[wait].peer + ring) % ring,
                   waits[wait].peer > 0 ? "upstream" : "downstream");
    }
    buf_printf(out, ": CTA %d, ", record->cta);
    tile_text(record, ring, launch, out);
    buf_printf(out, ", epoch %" PRIu64, record->epoch);
    switch (waits[wait].word) {
    case WORD_PHASE:
        buf_printf(out, ", phase seen %" PRIu64 ", wanted %" PRIu64, record->word, record->expected);
        break;
    case WORD_BITS:
        buf_printf(out, ", word seen %#" PRIx64 ", wanted %#" PRIx64, record->word, record->expected);
        break;
    case WORD_COUNT: buf_printf(out, ", word seen %" PRIu64 ", wanted %" PRIu64, record->word, record->expected); break;
    }
    buf_puts(out, " (deadline: GRS_DEADLINE, default 30 s)");
}
