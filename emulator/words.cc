// Words of global memory that threads and ranks talk through, and single words of shared memory. A release hands on what the
// thread knows; an acquire that reads it, in a scope that holds both, takes it over. A plain store between them breaks the
// chain; read-modify-writes continue it.
#include <string.h>

#include "emulator/machine.h"

namespace emu {

namespace {

region &word_region(const void *word, uint32_t bytes, const char *instruction) {
    region *r = the->memory.find(word);
    if (!r || !r->contains(word, bytes))
        fail(EMU_OUT_OF_BOUNDS, "%s: no memory of any rank lies at global address %p", instruction, word);
    if (reinterpret_cast<uintptr_t>(word) % bytes)
        fail(EMU_BAD_OPERAND, "%s: address %p is not %u-byte aligned", instruction, word, bytes);
    return *r;
}

uint64_t get(const void *word, uint32_t bytes) {
    uint64_t value = 0;
    memcpy(&value, word, bytes); // little-endian
    return value;
}

void put(void *word, uint32_t bytes, uint64_t value) {
    if (get(word, bytes) == value)
        return;
    memcpy(word, &value, bytes);
    the->changed();
}

// What the last releases of a word hand to `t`, which acquires in `scope`.
void take(thread &t, const word_state &w, emu_scope scope) {
    bool same_gpu = w.rank == t.in->rank;
    if (w.is_release && (same_gpu || (w.system && scope == EMU_SCOPE_SYS)))
        acquire(t, w.released);
}

void give(thread &t, word_state &w, emu_scope scope, bool keep_chain) {
    if (!keep_chain)
        w.released.clear();
    release(t, w.released);
    w.is_release = true;
    w.rank = t.in->rank;
    w.system = scope == EMU_SCOPE_SYS;
}

} // namespace

uint64_t device_load(const void *word, uint32_t bytes, emu_order order, emu_scope scope) {
    const char *instruction = order == EMU_ACQUIRE ? "ld.acquire" : "ld.relaxed";
    the->maybe_yield();
    region &r = word_region(word, bytes, instruction);
    thread &t = current();
    uint64_t value = get(word, bytes);
    if (order == EMU_ACQUIRE) {
        t.polls = t.polled == word && t.polled_value == value ? t.polls + 1 : 0;
        t.polled = word;
        t.polled_value = value;
        t.watched = nullptr;
        auto found = the->words.find(word);
        if (found != the->words.end())
            take(t, found->second, scope);
        monitor_load(r, word, value);
    }
    return value;
}

void device_store(void *word, uint32_t bytes, uint64_t value, emu_order order, emu_scope scope) {
    the->maybe_yield();
    region &r = word_region(word, bytes, order == EMU_RELEASE ? "st.release" : "st.relaxed");
    thread &t = current();
    monitor_store(r, word, get(word, bytes), value);
    word_state &w = the->words[word];
    w.stored = own_epoch(t);
    if (order == EMU_RELEASE)
        give(t, w, scope, false);
    else
        w.is_release = false;
    put(word, bytes, value);
}

uint64_t device_atomic(void *word, uint32_t bytes, uint64_t value, emu_atomic operation) {
    static const char *const names[] = {"red.release.sys.or",    "atom.acq_rel.gpu.add", "atom.acq_rel.gpu.inc",
                                        "atom.relaxed.sys.exch", "atom.relaxed.gpu.add", "atom.relaxed.gpu.max"};
    the->maybe_yield();
    region &r = word_region(word, bytes, names[operation]);
    thread &t = current();
    word_state &w = the->words[word];
    if (w.stored.count && r.use == purpose::mask && !knows(t, w.stored, level::seen))
        fail(EMU_BIT_LOST,
             "%s: the store of 0 to this mask word by %s is not known to be over: it may wipe the bit out",
             names[operation], who(w.stored).c_str());
    uint64_t before = get(word, bytes), after = before;
    switch (operation) {
    case EMU_OR_RELEASE_SYS: after = before | value; break;
    case EMU_ADD_ACQ_REL_GPU:
    case EMU_ADD_RELAXED_GPU: after = before + value; break;
    case EMU_INCREMENT_ACQ_REL_GPU: after = before >= value ? 0 : before + 1; break;
    case EMU_EXCHANGE_RELAXED_SYS: after = value; break;
    case EMU_MAX_RELAXED_GPU: after = before > value ? before : value; break;
    }
    monitor_atomic(r, word, before, after, operation);
    if (operation == EMU_OR_RELEASE_SYS) {
        give(t, w, EMU_SCOPE_SYS, w.is_release);
    } else if (operation == EMU_ADD_ACQ_REL_GPU || operation == EMU_INCREMENT_ACQ_REL_GPU) {
        take(t, w, EMU_SCOPE_GPU);
        give(t, w, EMU_SCOPE_GPU, w.is_release);
    }
    put(word, bytes, after);
    return before;
}

namespace {

void check_shared_word(const void *word, const char *instruction) {
    const cta &c = *current().in;
    if (!c.holds(word, 4) || reinterpret_cast<uintptr_t>(word) % 4)
        fail(EMU_OUT_OF_BOUNDS, "%s: %p is no word of this CTA's shared memory", instruction, word);
}

} // namespace

uint32_t device_load_shared(const uint32_t *word) {
    the->maybe_yield();
    check_shared_word(word, "ld.relaxed.cta.shared");
    return *word;
}

void device_store_shared(uint32_t *word, uint32_t value) {
    the->maybe_yield();
    check_shared_word(word, "st.relaxed.cta.shared");
    put(word, 4, value);
}

} // namespace emu
