// The emulated machine: what ranks, CTAs, warps and threads consist of. The functions that the kernel text calls act on the
// thread that runs; each file named below holds those of one kind.
//
//   scheduler.cc    who runs next, when transfers happen, time, deadlock
//   launch.cc       grids and CTAs: start, end, what must be true then
//   collective.cc   barriers of a CTA, warps that act together, clusters, registers
//   mbarrier.cc     mbarriers
//   copy_engine.cc  tensor-map and bulk copies, bulk groups
//   matrix.cc       ldmatrix and stmatrix
//   products.cc     wgmma
//   tensor_*.cc     tcgen05
//   words.cc        words that other ranks read or write
//   monitor.cc      what the ring protocol promises about mask, credit and departure
//   knowledge.cc    what a thread knows to have happened
//   report.cc       words for a verdict
#ifndef GRS_EMULATOR_MACHINE_H
#define GRS_EMULATOR_MACHINE_H

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "emulator/clock.h"
#include "emulator/device.h"
#include "emulator/emu.h"
#include "emulator/fiber.h"
#include "emulator/memory.h"
#include "emulator/random.h"
#include "emulator/shadow.h"

namespace emu {

constexpr uint32_t warp_lanes = 32, warpgroup_threads = 128;
constexpr uint32_t max_mbarriers = 128, max_copiers = 64; // a CTA; copiers: threads that issue bulk stores
constexpr uint32_t window_base = 1024; // shared-window address of dynamic shared memory: CUDA reserves the first KiB
constexpr uint32_t register_file = 65536;

struct thread;
struct warp;
struct cta;
struct grid;
struct mbarrier;
struct transfer;
struct products;
struct tensor_memory;
struct tensor_unit;
struct tensor_commit;
class machine;

// ---------------------------------------------------------------- knowledge

// What happened before, through all that was acquired. `shared` and `global`: the part of `seen` that lies before a proxy
// fence somewhere on the way, for shared and for global memory.
struct knowledge {
    vector_clock seen, shared, global;
    void join(const knowledge &other);
    void gather(const knowledge &other);
    void clear() { *this = knowledge(); }
};

// The same about the agents that belong to a thread itself, by count.
struct marks {
    uint32_t self = 0;        // own accesses
    uint32_t warp = 0;        // ldmatrix of its warp
    uint32_t products = 0;    // products of its warpgroup that it has waited for
    uint32_t tensor_read = 0; // tcgen05.ld of its warp that it has waited for
    uint32_t tensor = 0;      // … as of its last fence::before_thread_sync
    uint32_t read = 0;        // its bulk stores whose source has been read, as far as it has waited
    uint32_t land = 0;        // … that have landed
};

// ---------------------------------------------------------------- threads

enum class blocked_on { nothing, mbarrier, barrier, warp, cluster, bulk, products, registers, tensor, time };

struct place { // what the text says about itself: see ptx::note
    int32_t role = -1, owner = -1, tile = -1, position = -1, wait = 0;
};

struct bulk_group {
    uint32_t last;             // count of its last store (of the agents `read` and `land` of this thread)
    uint32_t unread, unlanded; // stores
};

struct seen_phase { // what a thread last saw of an mbarrier
    mbarrier *of;
    int64_t last = -1;    // index of the phase whose end it last saw; -1: none yet
    int64_t awaited = -1; // index of the phase that it last waited for in vain; -1: none since
};

struct thread {
    fiber context;
    emu_self self;
    cta *in;
    uint32_t index; // in its CTA
    bool done = false, queued = false;
    place at;

    blocked_on waits = blocked_on::nothing;
    const char *instruction = ""; // that blocks
    mbarrier *awaited = nullptr;
    uint64_t wait_detail = 0;     // parity, barrier number, groups pending …
    const void *polled = nullptr; // last word that it acquired
    mbarrier *watched = nullptr;  // … or mbarrier that it tested since
    uint64_t polled_value = 0;
    uint32_t polls = 0;       // looks in vain, one after another: each lets more time pass
    uint64_t wake_at = 0;     // emulated ns; timers that no longer match are stale
    uint64_t timer_stamp = 0; // never used twice: timers of an earlier launch do not match either
    uint32_t patience = 0;    // failed looks at the same phase: each waits longer

    knowledge know;
    marks own, own_shared, own_global; // as `know`: seen; fenced for shared; fenced for global memory
    vector_clock tensor_seen;          // `know.seen` as of its last tcgen05.fence::after_thread_sync

    int copier = -1; // index of its bulk agents in the CTA
    std::vector<bulk_group> groups;
    bool group_open = false;
    size_t read_done = 0, landed = 0; // groups, from the first
    bool wait_read_only = false;
    size_t wait_groups = 0;

    std::vector<seen_phase> phases;

    uint64_t product_sequence = 0; // instructions of this thread in its warpgroup's queue
    uint64_t product_commits = 0, wait_commits = 0;
    bool product_fence = false; // wgmma.fence since the accumulators were last touched
    uint32_t collective_value = 0;
    uint32_t *collective_out = nullptr;
    const void *collective_row = nullptr;
};

// One instruction that the lanes of a warp execute together.
struct warp {
    const char *instruction = nullptr; // that the first lane to arrive executes
    uint64_t detail = 0;
    uint32_t arrived = 0; // lanes, by bit
    int elected = -1;     // lane that elect.sync picks; -1: not known yet
};

struct named_barrier {
    uint32_t expected = 0, arrived = 0;
    knowledge gathered;
    std::vector<thread *> waiting;
};

struct mbarrier {
    cta *in;
    uint32_t number, offset; // in order of initialisation; in shared memory
    uint32_t expected, pending;
    int64_t bytes = 0;   // transaction count of this phase
    uint64_t phase = 0;  // phases completed
    uint32_t agent;      // of the copies that complete on it
    epoch made;          // by the thread that initialised it
    bool fenced = false; // fence.mbarrier_init or a proxy fence by that thread since
    knowledge gathered;  // arrivals of this phase
    knowledge completed; // of the phase before
    std::vector<thread *> waiting;
};

// setmaxnreg by a warpgroup.
struct warpgroup {
    uint32_t index; // in its CTA
    uint32_t registers = 0, arrived = 0, wanted = 0;
    bool increase = false;
    std::vector<thread *> waiting;
    std::unique_ptr<products, void (*)(products *)> matrix{nullptr, nullptr};
};

// ---------------------------------------------------------------- CTAs and grids

struct launch {
    emu_entry entry;
    grs_args args;
    uint32_t ctas, threads, shared_bytes, registers, cluster;
    uint32_t ctas_per_sm = 1;          // that share tensor memory
    const struct plan *plan = nullptr; // NULL: a kernel of a unit test
    uint64_t number;                   // of launches on this group, from 0
    std::vector<int64_t> bits;         // by rank of the ring: bits that upstream sets
    std::vector<int64_t> bits_limit;   // … and the length of the mask in use
};

// A CTA's place in its grid; it outlives launches, since agents and their counts do.
struct cta {
    uint32_t slot;  // among all CTAs of the machine
    uint32_t block; // in its grid
    grid *of;
    const launch *running = nullptr;
    int rank = 0;      // of the ring
    int32_t index = 0; // among the CTAs of its rank
    std::unique_ptr<char[]> storage;
    char *shared = nullptr; // 1024-byte aligned
    uint32_t shared_bytes = 0;
    emu::shadow marks;
    std::vector<thread> threads;
    std::vector<warp> warps;
    std::vector<warpgroup> warpgroups;
    std::vector<std::unique_ptr<mbarrier>> mbarriers;
    named_barrier barriers[16];
    named_barrier *cluster_barrier = nullptr; // of the first CTA of the cluster
    named_barrier own_cluster_barrier;
    uint32_t live = 0; // threads
    uint32_t free_registers = 0;
    uint32_t loads = 0, reads = 0; // copies that still write or read its shared memory
    bool departed = false;
    uint32_t sm_index = 0; // in its grid
    std::shared_ptr<tensor_memory> sm;
    std::shared_ptr<tensor_unit> tensor;

    std::vector<uint32_t> counts; // of agents, over all launches
    std::vector<int> copier_of;   // by thread; -1: none yet
    int copiers = 0;

    bool holds(const void *p, size_t bytes) const {
        const char *c = static_cast<const char *>(p);
        return c >= shared && bytes <= shared_bytes && c - shared <= static_cast<ptrdiff_t>(shared_bytes - bytes);
    }
    uint32_t offset(const void *p) const { return static_cast<uint32_t>(static_cast<const char *>(p) - shared); }
};

// Ranks that are launched together; a stream of launches.
struct grid {
    uint32_t index;
    std::vector<cta *> ctas;
    std::vector<launch> launches;
    size_t next = 0;        // launch
    uint32_t live = 0;      // CTAs
    uint32_t in_flight = 0; // copies that have yet to write global memory
    knowledge stream;       // of what has finished
};

// ---------------------------------------------------------------- events

enum class event_kind { load, store_read, store_land, products, start, tensor_commit };

struct event {
    event_kind kind;
    transfer *copy = nullptr;
    cta *in = nullptr; // products
    uint32_t warpgroup_index = 0;
    grid *of = nullptr; // start
    tensor_commit *commit = nullptr;
};

// ---------------------------------------------------------------- words that are synchronised through

struct word_state {
    knowledge released; // of the last release, and of the read-modify-writes that followed it
    bool is_release = false;
    int rank = -1; // that released
    bool system = false;
    epoch stored; // last plain store
};

class machine {
  public:
    machine(emu_schedule policy, uint64_t seed);
    ~machine();
    machine(const machine &) = delete;
    machine &operator=(const machine &) = delete;

    // Sizes everything for these grids; call once, after all launches are in.
    bool prepare();
    // Runs all launches to their end, or to the first thing found wrong.
    void run();

    global_memory memory;
    std::vector<std::unique_ptr<grid>> grids;
    std::vector<std::unique_ptr<cta>> ctas; // by slot
    std::unordered_map<const void *, word_state> words;
    std::unique_ptr<struct monitor> protocol;
    random_source chance;
    emu_report report{};
    uint64_t max_steps = uint64_t{1} << 36, deadline_ns = 0;

    // ---- what device functions use
    thread *current = nullptr; // on whose behalf; nullptr: an event's
    uint64_t now = 0;          // ns
    uint64_t version = 0;      // grows with every change that somebody might wait for
    uint32_t max_threads = 0;  // of a CTA, over all launches
    // Agents of a CTA: threads, warps, warpgroups, mbarriers, two for each thread that issues bulk stores, the products on
    // tensor memory, and for each warp its loads from there.
    uint32_t warp_agent(uint32_t i) const { return max_threads + i; }
    uint32_t warpgroup_agent(uint32_t i) const { return warp_agent(max_threads / warp_lanes) + i; }
    uint32_t mbarrier_agent(uint32_t i) const { return warpgroup_agent(max_threads / warpgroup_threads) + i; }
    uint32_t copier_agent(uint32_t i, bool land) const { return mbarrier_agent(max_mbarriers) + 2 * i + land; }
    uint32_t tensor_agent() const { return copier_agent(max_copiers, false); } // products that the CTA issued
    uint32_t tensor_read_agent(uint32_t warp_index) const { return tensor_agent() + 1 + warp_index; }
    uint32_t agents() const { return tensor_read_agent(max_threads / warp_lanes); }

    bool deadlocked = false; // the kernel's own deadlines run: what comes now is how it leaves
    bool stopped = false;    // by fail

    void wake(thread *t);
    // Lets others run until somebody calls wake; with `until`, or until that time.
    void block(blocked_on what, const char *instruction, uint64_t detail, uint64_t until = 0);
    // A point at which others may run first.
    void maybe_yield();
    void changed() { ++version; }
    void finish_grid(grid *g); // its threads have ended and its copies have landed
    // Puts an event off for as long as the schedule likes; it may happen within the call.
    void post(const event &e);
    // How long a thread sleeps that has looked in vain so often.
    uint64_t poll_time(uint32_t ns, uint32_t polls) {
        return (ns + static_cast<uint64_t>(chance.below(ns + 100))) << (polls < poll_limit_ ? polls : poll_limit_);
    }
    bool eager_read() { return policy_ != EMU_SCHEDULE_LAZY && chance.one_in(2); }

  private:
    struct timer {
        uint64_t at, order;
        thread *of;
        uint64_t stamp;
        bool operator>(const timer &o) const { return at != o.at ? at > o.at : order > o.order; }
    };
    struct timed_event {
        uint64_t step, order;
        event what;
        bool operator>(const timed_event &o) const { return step != o.step ? step > o.step : order > o.order; }
    };
    struct ready {
        uint64_t priority, order;
        thread *of;
        bool operator<(const ready &o) const {
            return priority != o.priority ? priority < o.priority : order > o.order;
        }
    };
    static void thread_main(void *argument);
    void enqueue(thread *t);
    thread *pick();
    void resume(thread *t);
    void happen(const event &e);
    bool idle();
    void pop_timers(bool all_due_or_first);
    void everybody_looks();
    void start(grid *g);
    void finish(thread *t);
    void finish_cta(cta *c);
    void loop();
    uint64_t priority_of(const thread *t) const;
    void draw_policy();
    void note_deadlock();

    emu_schedule policy_;
    fiber main_;
    stack_pool stacks_;
    std::vector<thread *> queue_; // random, eager and lazy
    size_t queue_head_ = 0;
    std::vector<ready> heap_; // adversarial
    std::vector<timer> timers_;
    std::vector<timed_event> timed_;
    std::vector<event> late_;
    uint64_t steps_ = 0, order_ = 0, quiet_version_ = 0;
    uint64_t quiet_ = 0; // timers that ran out one after another without any change
    uint32_t idle_rounds_ = 0;
    uint32_t running_grids_ = 0;
    // the schedule of this run
    uint32_t poll_limit_ = 0, mean_delay_ = 0, yield_one_in_ = 0, late_one_in_ = 0, change_every_ = 0;
    std::vector<uint32_t> rank_priority_, warp_priority_;
    std::vector<uint8_t> laziness_; // by kind and rank
};

extern machine *the; // the one that runs
inline thread &current() {
    return *the->current;
}

// Records a verdict and ends the run: unwinds the fiber that runs, or the scheduler. The text is preceded by who was at it.
[[noreturn]] void fail(enum emu_verdict verdict, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct halted {};

// ---------------------------------------------------------------- knowledge.cc

enum class level { seen, shared, global };
bool knows(const thread &t, const epoch &e, level l);
// Everything `t` did and knows goes into `into`; what it does from now on does not.
void release(thread &t, knowledge &into);
void acquire(thread &t, const knowledge &from);
// The epoch of an access by this thread now.
inline epoch own_epoch(const thread &t);

// ---------------------------------------------------------------- the rest, by file

void complete_bytes(mbarrier &b, uint32_t bytes, uint32_t copy_count);
cta &cluster_peer(cta &c, uint32_t cluster_rank, const char *instruction);
mbarrier &mbarrier_at(cta &c, const void *p, const char *instruction);
void transfer_step(const event &e); // load, store_read, store_land
void drop_transfer(transfer *t);
void products_event(cta &c, uint32_t warpgroup_index);
std::unique_ptr<products, void (*)(products *)> make_products();
void arrive_from_products(mbarrier &b, const knowledge &what);
void tensor_commit_step(tensor_commit *commit);
void drop_commit(tensor_commit *commit);
void set_up_tensor(cta &c);
void check_tensor_over(cta &c);
// sum [rows x n] += a [rows x 16] * b [16 x n].
void multiply_add(const float *a, const float *b, uint32_t rows, uint32_t n, float *sum);
float from_bf16(uint16_t word);
// Waits until every lane of the warp is here. True in the lane that arrived last, which acts for all; it must then call
// part_warp.
bool join_warp(const char *instruction, uint64_t detail);
void part_warp();
thread *first_lane();
void whole_warp(const char *instruction);
void matrix_load(thread *lanes); // all 32 of a warp, on behalf of the current one
void matrix_store(thread *lanes);
void check_products_over(const warpgroup &w);
void fail_conflict(const conflict &c, const char *instruction, const char *memory, uint64_t address, bool is_write);

void monitor_atomic(region &r, void *word, uint64_t before, uint64_t after, emu_atomic operation);
void monitor_store(region &r, void *word, uint64_t before, uint64_t value);
void monitor_load(region &r, const void *word, uint64_t value);
void monitor_left(const launch &l, int rank);

std::string who(const thread &t); // "rank 1 CTA 0 sender (warp 3 lane 0), launch 2, tile 5 of owner 0"
std::string who(const epoch &e);
std::string what_waits(const thread &t);     // "… waits for …"
std::string name_barrier(const mbarrier &b); // "mbarrier 7 (outbox_full[1])"
std::string name_shared(const cta &c, uint64_t offset);
const char *name_role(int role);
void blame(const thread &t); // fills in the report who noticed

extern const emu_device device_table;
void set_self(const emu_self *self); // the thread that runs, as the kernel text sees it

inline epoch own_epoch(const thread &t) {
    return epoch(t.in->slot, t.index, t.own.self, false);
}

} // namespace emu

#endif
