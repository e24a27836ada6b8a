// Words for what was found.
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <string>

#include "emulator/machine.h"

namespace emu {

namespace {

const char *const roles[] = {"loader", "prefetcher", "storer", "sender", "math", "issuer"};

const char *const waits[] = {
    "nothing",
    "a free stage (the math warps still read it)",
    "A and B",
    "the tile buffer to be stored",
    "the tile buffer with upstream's partial",
    "the math warps to finish the tile",
    "upstream's bit",
    "a free outbox tile (the sender holds every one)",
    "a tile to send",
    "downstream's credit",
    "a chunk of the outbox",
    "its turn on the link",
    "a free accumulator (the math warps still read it)",
    "the products",
};
static_assert(sizeof(waits) / sizeof(*waits) == GRS_WAIT_COUNT && sizeof(roles) / sizeof(*roles) == GRS_ROLE_COUNT,
              "a name for each role and wait");

std::string text(const char *format, ...) __attribute__((format(printf, 1, 2)));
std::string text(const char *format, ...) {
    char buffer[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(buffer, sizeof(buffer), format, list);
    va_end(list);
    return buffer;
}

// The fields of Barriers in templates/pipeline.cuh, in the order in which they lie in shared memory.
std::string name_by_plan(const struct plan &plan, uint32_t offset) {
    uint64_t stages = static_cast<uint64_t>(plan.value[FIELD_STAGES_LOAD]),
             buffers = static_cast<uint64_t>(plan.tile_buffers), outbox = static_cast<uint64_t>(plan.outbox_depth),
             accumulators = plan.tensor_columns ? static_cast<uint64_t>(plan.value[FIELD_STAGES_ACCUM]) : 0,
             turns = plan.arch == ARCH_SM90A && plan.value[FIELD_SCHEDULE] == SCHEDULE_PINGPONG ? 2 : 0;
    const struct {
        const char *name;
        uint64_t count;
    } fields[] = {
        {"accum_full", accumulators}, {"accum_free", accumulators},
        {"product_turn", turns},      {"tile_turn", turns},
        {"stage_full", stages},       {"stage_free", stages},
        {"tile_ready", buffers},      {"tile_full", buffers},
        {"tile_free", buffers},       {"outbox_full", outbox},
        {"outbox_sent", outbox},      {"chunk_full", static_cast<uint64_t>(plan.value[FIELD_CHUNK_COUNT])},
    };
    for (int i = 0; i < plan.region_count; ++i) {
        const struct plan_region &r = plan.region[i];
        if (strcmp(r.name, "barriers") != 0 || offset < r.offset || offset >= r.offset + r.bytes)
            continue;
        uint64_t number = (offset - static_cast<uint64_t>(r.offset)) / 8;
        for (const auto &f : fields) {
            if (number < f.count)
                return f.count == 1 ? f.name : text("%s[%" PRIu64 "]", f.name, number);
            number -= f.count;
        }
    }
    return "";
}

std::string agent_name(uint32_t agent) {
    if (agent < the->max_threads)
        return text("warp %u lane %u", agent / warp_lanes, agent % warp_lanes);
    if (agent < the->warpgroup_agent(0))
        return text("warp %u", agent - the->warp_agent(0));
    if (agent < the->mbarrier_agent(0))
        return text("the products of warpgroup %u", agent - the->warpgroup_agent(0));
    if (agent < the->copier_agent(0, false))
        return "";
    return "";
}

} // namespace

const char *name_role(int role) {
    return role >= 0 && role < GRS_ROLE_COUNT ? roles[role] : "thread";
}

std::string who(const thread &t) {
    const place &at = t.at;
    std::string s =
        text("rank %d CTA %d %s (warp %u lane %u), launch %llu", t.in->rank, t.in->index, name_role(at.role),
             t.index / warp_lanes, t.index % warp_lanes, static_cast<unsigned long long>(t.in->running->number));
    if (at.owner >= 0)
        s += text(", tile %d of owner %d", at.tile, at.owner);
    if (at.position >= 0)
        s += text(", position %d", at.position);
    return s;
}

std::string who(const epoch &e) {
    const cta &c = *the->ctas[e.cta];
    std::string s = text("rank %d CTA %d ", c.rank, c.index);
    if (e.agent < the->copier_agent(0, false)) {
        if (e.agent < the->mbarrier_agent(0))
            return s + agent_name(e.agent);
        uint32_t number = e.agent - the->mbarrier_agent(0);
        return s + "the copies into " +
               (number < c.mbarriers.size() ? name_barrier(*c.mbarriers[number]) : text("mbarrier %u", number));
    }
    if (e.agent == the->tensor_agent())
        return s + "the tensor cores";
    if (e.agent > the->tensor_agent())
        return s + text("a tcgen05.ld of warp %u", e.agent - the->tensor_read_agent(0));
    uint32_t copier = (e.agent - the->copier_agent(0, false)) / 2;
    for (uint32_t i = 0; i < c.copier_of.size(); ++i)
        if (c.copier_of[i] == static_cast<int>(copier)) {
            int role = i < c.threads.size() ? c.threads[i].at.role : -1;
            s += text("a bulk store by the %s (warp %u lane %u)", name_role(role), i / warp_lanes, i % warp_lanes);
        }
    return s;
}

std::string name_barrier(const mbarrier &b) {
    std::string by_plan = b.in->running->plan ? name_by_plan(*b.in->running->plan, b.offset) : "";
    std::string s = by_plan.empty() ? text("mbarrier %u", b.number) : by_plan;
    if (&b.in->threads[0] != the->current && the->current && the->current->in != b.in)
        s += text(" of CTA %d", b.in->index);
    return s;
}

std::string name_shared(const cta &c, uint64_t offset) {
    const struct plan *plan = c.running->plan;
    for (int i = 0; plan && i < plan->region_count; ++i) {
        const struct plan_region &r = plan->region[i];
        if (static_cast<int64_t>(offset) >= r.offset && static_cast<int64_t>(offset) < r.offset + r.bytes)
            return text("shared memory, %s at byte %lld", r.name,
                        static_cast<long long>(offset) - static_cast<long long>(r.offset));
    }
    return text("shared memory at byte %llu", static_cast<unsigned long long>(offset));
}

static std::string state_of(const mbarrier &b, const thread &t) {
    std::string s =
        text("phase %llu of %s (%u of %u arrivals and %lld bytes missing)", static_cast<unsigned long long>(b.phase),
             name_barrier(b).c_str(), b.pending, b.expected, static_cast<long long>(b.bytes));
    for (const seen_phase &p : t.phases)
        if (p.of == &b && p.last + 1 < static_cast<int64_t>(b.phase))
            s += text("; it has not seen phases %lld to %lld", static_cast<long long>(p.last + 1),
                      static_cast<long long>(b.phase) - 1);
    return s;
}

static std::string name_word(const region &r, const void *word) {
    size_t offset = static_cast<size_t>(static_cast<const char *>(word) - r.base);
    const char *name = nullptr;
    if (r.use == purpose::control)
        name = offset == offsetof(grs_control, epoch)    ? "epoch"
               : offset == offsetof(grs_control, credit) ? "credit"
               : offset == offsetof(grs_control, abort)  ? "abort word"
                                                         : nullptr;
    if (name)
        return text("rank %d's %s", r.rank, name);
    return text("rank %d's %s at byte %zu", r.rank, r.name, offset);
}

std::string what_waits(const thread &t) {
    std::string s = who(t) + ": ";
    unsigned long long detail = t.wait_detail;
    switch (t.waits) {
    case blocked_on::mbarrier: s += "waits for " + state_of(*t.awaited, t); break;
    case blocked_on::barrier: {
        const named_barrier &b = t.in->barriers[detail];
        s += text("waits at barrier %llu (%u of %u threads are there)", detail, b.arrived, b.expected);
        break;
    }
    case blocked_on::cluster:
        s += text("waits at the cluster's barrier (%u of %u threads are there)", t.in->cluster_barrier->arrived,
                  t.in->cluster_barrier->expected);
        break;
    case blocked_on::warp: {
        uint32_t missing = ~t.in->warps[t.index / warp_lanes].arrived;
        s += text("waits at %s for lanes %#x of its warp", t.instruction, missing);
        break;
    }
    case blocked_on::bulk: s += text("waits at %s %llu", t.instruction, detail); break;
    case blocked_on::products: s += text("waits at %s %llu", t.instruction, detail); break;
    case blocked_on::tensor: s += text("waits at %s %llu", t.instruction, detail); break;
    case blocked_on::registers:
        s += text("waits at %s %llu: %u of 128 threads are there, %u registers are free", t.instruction, detail,
                  t.in->warpgroups[t.index / warpgroup_threads].arrived, t.in->free_registers);
        break;
    case blocked_on::time: {
        const region *r = the->memory.find(t.polled);
        if (t.watched)
            s += "polls " + state_of(*t.watched, t);
        else if (r)
            s += text("polls %s, which holds %#llx", name_word(*r, t.polled).c_str(),
                      static_cast<unsigned long long>(t.polled_value));
        else
            s += "sleeps";
        break;
    }
    case blocked_on::nothing: s += "can run"; break;
    }
    if ((t.waits == blocked_on::mbarrier || t.waits == blocked_on::time) && t.at.wait > 0 && t.at.wait < GRS_WAIT_COUNT)
        s += std::string(", for ") + waits[t.at.wait];
    return s;
}

void blame(const thread &t) {
    emu_report &report = the->report;
    report.rank = t.in->rank;
    report.cta = t.in->index;
    report.role = t.at.role;
    report.owner = t.at.owner;
    report.tile = t.at.tile;
    report.position = t.at.position;
    report.launch = static_cast<int64_t>(t.in->running->number);
}

void fail(enum emu_verdict verdict, const char *format, ...) {
    char message[2048];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof(message), format, list);
    va_end(list);
    emu_report &report = the->report;
    std::string by = the->current ? who(*the->current) + ": " : "";
    if (the->deadlocked) { // the first thing found stays the verdict
        size_t used = strlen(report.text);
        snprintf(report.text + used, sizeof(report.text) - used, "  while leaving: %s%s: %s\n", by.c_str(),
                 emu_verdict_name(verdict), message);
    } else {
        report.verdict = verdict;
        if (the->current)
            blame(*the->current);
        snprintf(report.text, sizeof(report.text), "%s%s\n", by.c_str(), message);
    }
    the->stopped = true;
    throw halted{};
}

void fail_conflict(const conflict &c, const char *instruction, const char *memory, uint64_t address, bool is_write) {
    std::string other = c.what == finding::unwritten ? "" : who(c.other);
    const char *did = c.with_read ? "read" : "written";
    switch (c.what) {
    case finding::unwritten:
        fail(EMU_TOO_EARLY, "%s reads %s (%#llx), which nobody has written", instruction, memory,
             static_cast<unsigned long long>(address));
    case finding::unfenced:
        fail(EMU_UNFENCED, "%s %s %s, %s before by %s: no proxy fence lies between", instruction,
             is_write ? "writes" : "reads", memory, did, other.c_str());
    default:
        if (is_write)
            fail(EMU_OVERWRITTEN, "%s writes %s, %s by %s: nothing says that this is over", instruction, memory, did,
                 other.c_str());
        fail(EMU_TOO_EARLY, "%s reads %s, written by %s: nothing says that this has arrived", instruction, memory,
             other.c_str());
    }
}

} // namespace emu

extern "C" const char *emu_verdict_name(enum emu_verdict verdict) {
    static const char *const names[EMU_VERDICTS] = {"passed",
                                                    "deadlock",
                                                    "wrong result",
                                                    "unwritten output",
                                                    "stray write",
                                                    "overwritten in use",
                                                    "read too early",
                                                    "missing fence",
                                                    "bit set twice",
                                                    "bit never set or cleared",
                                                    "bit lost",
                                                    "mask cleared early",
                                                    "credit given early",
                                                    "barrier phase skipped",
                                                    "barrier count",
                                                    "group misuse",
                                                    "out of bounds",
                                                    "bad operand",
                                                    "threads diverged",
                                                    "registers",
                                                    "tensor memory misuse",
                                                    "emulator's limits"};
    return verdict < EMU_VERDICTS ? names[verdict] : "?";
}
