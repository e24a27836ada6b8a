#include "generator/plan_warps.h"

#include "generator/machine.h"

#define WARP             32
#define WARPGROUP        128
#define ROLE_THREADS     WARPGROUP /* loader, prefetcher, storer, sender                                      */
#define ROWS_A_WARPGROUP 64        /* of a tile, by one math warpgroup: wgmma's M                             */
#define ISSUER_THREADS   WARP      /* sm_100a: the warp that issues products and owns tensor memory           */
#define MOST_REGISTERS   240       /* that math threads can use: few kernels need more                        */
#define ROLE_REGISTERS   64
#define FEWER_REGISTERS  56 /* beside math threads with more accumulators than MANY, which would spill */
#define MANY             160
#define MORE_REGISTERS   80 /* where ptxas would spill: with wait counters, or several senders of one outbox */

/* drain.policy: lane_per_stage gives each place that a store leaves from a warp: a tile buffer, or with ring.place: global,
 * where the outbox is pushed through chunks, a chunk. */
static void count_lanes(struct plan *plan) {
    const int64_t *v = plan->value;
    bool shared = v[FIELD_RING_PLACE] == PLACE_SHARED;
    int inside = shared ? 2 : 1; /* in the first warpgroup: storer's and sender's warp, or the sender's */
    plan->tile_buffers = shared ? (int)v[FIELD_RING_DEPTH] : 1;
    plan->outbox_depth = shared ? 1 : (int)v[FIELD_RING_DEPTH];
    plan->ship_lanes = 1;
    if (v[FIELD_DRAIN_POLICY] == DRAIN_LANE_PER_STAGE && (shared || plan->shape.tp > 1))
        plan->ship_lanes = shared ? plan->tile_buffers : (int)v[FIELD_CHUNK_COUNT];
    plan->beside_warps = plan->ship_lanes > inside ? plan->ship_lanes - inside : 0;
}

/* Registers are shared out by warpgroup, so Hopper's come whole. */
static int beside_threads(const struct plan *plan) {
    if (config_arch_family(plan->arch) == ARCH_SM100A)
        return plan->beside_warps * WARP;
    return (plan->beside_warps * WARP + WARPGROUP - 1) / WARPGROUP * WARPGROUP;
}

/* A math warpgroup has 64 rows of the tile, or, reading all lanes of tensor memory, half of its columns. */
void plan_assign_warps(struct plan *plan) {
    int64_t columns = plan->value[FIELD_TILE_N];
    count_lanes(plan);
    plan->tensor_columns = 0;
    if (config_arch_family(plan->arch) == ARCH_SM100A) {
        plan->consumer_warpgroups = columns > 64 ? 2 : 1;
        plan->threads = ROLE_THREADS + WARPGROUP * plan->consumer_warpgroups + ISSUER_THREADS;
        for (plan->tensor_columns = 32; plan->tensor_columns < columns * plan->value[FIELD_STAGES_ACCUM];)
            plan->tensor_columns *= 2;
    } else {
        bool pingpong = plan->value[FIELD_SCHEDULE] == SCHEDULE_PINGPONG;
        plan->consumer_warpgroups = pingpong ? 2 : (int)(plan->value[FIELD_TILE_M] / ROWS_A_WARPGROUP);
        plan->threads = ROLE_THREADS + WARPGROUP * plan->consumer_warpgroups;
    }
    plan->threads += beside_threads(plan);
    plan_share_registers(plan);
}

/* What the launch gives every thread, and what setmaxnreg leaves to roles and math (multiples of 8). The roles need few; the
 * math warpgroups get the rest. */
void plan_share_registers(struct plan *plan) {
    const struct machine *machine = machine_of(plan->arch);
    int math = WARPGROUP * plan->consumer_warpgroups, others = plan->threads - math;
    int most = machine->registers_a_thread / 8 * 8;
    plan->registers_launch = machine->registers / plan->threads / 8 * 8;
    if (plan->registers_launch > most)
        plan->registers_launch = most;
    plan->registers_producer = plan->registers_consumer = plan->registers_launch;
    if (plan->tensor_columns) /* no accumulators in registers: every role has more than it needs */
        return;
    bool senders = plan->ship_lanes > 1 && plan->value[FIELD_RING_PLACE] == PLACE_GLOBAL;
    int role = plan->count_waits || senders     ? MORE_REGISTERS
               : plan_accumulators(plan) > MANY ? FEWER_REGISTERS
                                                : ROLE_REGISTERS;
    if (plan->registers_producer > role)
        plan->registers_producer = role;
    plan->registers_consumer =
        (plan->registers_launch * plan->threads - plan->registers_producer * others) / math / 8 * 8;
    if (plan->registers_consumer > MOST_REGISTERS)
        plan->registers_consumer = MOST_REGISTERS;
    int left = plan->registers_launch * plan->threads - plan->registers_consumer * math;
    if (left >= (plan->registers_producer + 8) * others && plan->registers_producer < plan->registers_launch)
        plan->registers_producer += 8; /* which the math threads, counted in eights, cannot have */
    if (plan->registers_launch >
        plan->registers_consumer) /* then nobody gets more: ptxas launches with what they get */
        plan->registers_launch = plan->registers_consumer;
}

/* Rows of a tile in one warpgroup. */
static int rows_of(const struct plan *plan) {
    return plan->value[FIELD_SCHEDULE] == SCHEDULE_PINGPONG ? (int)plan->value[FIELD_TILE_M] : ROWS_A_WARPGROUP;
}

int plan_accumulators(const struct plan *plan) {
    return (int)plan->value[FIELD_TILE_N] * rows_of(plan) / WARPGROUP;
}

int plan_other_registers(const struct plan *plan) {
    return PLAN_OTHER_REGISTERS * rows_of(plan) / ROWS_A_WARPGROUP;
}

/* One instruction multiplies 64 rows, and for it setmaxnreg does not count: ptxas refuses one that wants more than an even share
 * of the registers. All accumulators of a thread lie in what setmaxnreg leaves it. */
int plan_most_columns(const struct plan *plan) {
    int one = (plan->registers_launch - PLAN_OTHER_REGISTERS) * WARPGROUP / ROWS_A_WARPGROUP;
    int all = (plan->registers_consumer - plan_other_registers(plan)) * WARPGROUP / rows_of(plan), columns = 0;
    const int64_t *legal = config_fields[FIELD_TILE_N].allowed;
    for (int i = 0; legal[i]; i++)
        if (legal[i] <= one && legal[i] <= all)
            columns = (int)legal[i];
    return columns;
}

int plan_most_lanes(const struct plan *plan) {
    struct plan fewer = *plan;
    enum field field = plan->value[FIELD_RING_PLACE] == PLACE_SHARED ? FIELD_RING_DEPTH : FIELD_CHUNK_COUNT;
    for (int lanes = plan->ship_lanes - 1; lanes > 1; lanes--) {
        fewer.value[field] = lanes;
        plan_assign_warps(&fewer);
        if (plan_most_columns(&fewer) >= plan->value[FIELD_TILE_N])
            return lanes;
    }
    return 1;
}
