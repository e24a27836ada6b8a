#include "emulator/monitor.h"

#include <stddef.h>

namespace emu {

namespace {

enum class word_kind { other, mask, epoch, departed, credit };

struct place_of_word {
    word_kind kind = word_kind::other;
    monitored_rank *rank = nullptr;
    int number = 0; // of the rank
    size_t first_bit = 0;
};

place_of_word find(const region &r, const void *word) {
    place_of_word p;
    if (!the->protocol || (r.use != purpose::mask && r.use != purpose::control))
        return p;
    p.number = r.rank;
    p.rank = &the->protocol->ranks[static_cast<size_t>(r.rank)];
    size_t offset = static_cast<size_t>(static_cast<const char *>(word) - r.base);
    if (r.use == purpose::mask) {
        p.kind = word_kind::mask;
        p.first_bit = offset * 8;
    } else if (offset == offsetof(grs_control, epoch)) {
        p.kind = word_kind::epoch;
    } else if (offset == offsetof(grs_control, departed)) {
        p.kind = word_kind::departed;
    } else if (offset == offsetof(grs_control, credit)) {
        p.kind = word_kind::credit;
    }
    return p;
}

uint32_t ctas_of(const launch &l) {
    return static_cast<uint32_t>(l.args.grid);
}

template <class T> T &at(std::vector<T> &v, uint64_t i) {
    if (v.size() <= i)
        v.resize(i + 1);
    return v[i];
}

void clear_mask(const place_of_word &p, uint64_t before, uint64_t value) {
    const cta &c = *current().in;
    const launch &l = *c.running;
    uint64_t number = l.number;
    if (value != 0)
        fail(EMU_BIT_LOST, "a plain store of %#llx into rank %d's mask", static_cast<unsigned long long>(value),
             p.number);
    uint32_t left = at(p.rank->departed, number);
    if (left < ctas_of(l))
        fail(EMU_CLEAR_EARLY, "rank %d's mask is cleared in launch %llu, of whose %u CTAs %u have departed", p.number,
             static_cast<unsigned long long>(number), ctas_of(l), left);
    for (size_t i = 0; i < 64; ++i) {
        if ((before >> i & 1) == 0)
            continue;
        monitored_rank::bit &b = p.rank->bits[p.first_bit + i];
        if (b.set_by > static_cast<int64_t>(number))
            fail(EMU_BIT_LOST, "bit %zu of rank %d's mask belongs to launch %lld and is cleared by launch %llu",
                 p.first_bit + i, p.number, static_cast<long long>(b.set_by), static_cast<unsigned long long>(number));
        if (!b.seen)
            fail(EMU_BIT_LOST, "bit %zu of rank %d's mask is cleared before anybody saw it", p.first_bit + i, p.number);
        b = monitored_rank::bit();
    }
}

void give_credit(const place_of_word &p, uint64_t before, uint64_t value) {
    const thread &t = current();
    const launch &l = *t.in->running;
    monitored_rank &giver = the->protocol->ranks[static_cast<size_t>(t.in->rank)];
    if (value != before + 1 || value != l.number + 1)
        fail(EMU_CREDIT_EARLY, "rank %d's credit goes from %llu to %llu in launch %llu", p.number,
             static_cast<unsigned long long>(before), static_cast<unsigned long long>(value),
             static_cast<unsigned long long>(l.number));
    uint32_t left = at(giver.departed, l.number);
    if (left < ctas_of(l))
        fail(EMU_CREDIT_EARLY, "rank %d gives the credit for launch %llu, of whose %u CTAs %u have departed",
             t.in->rank, static_cast<unsigned long long>(l.number), ctas_of(l), left);
    for (size_t i = 0; i < giver.bits.size(); ++i)
        if (giver.bits[i].set_by >= 0)
            fail(EMU_CREDIT_EARLY, "rank %d gives the credit for launch %llu while bit %zu of its mask is still set",
                 t.in->rank, static_cast<unsigned long long>(l.number), i);
}

} // namespace

void monitor_atomic(region &r, void *word, uint64_t before, uint64_t after, emu_atomic operation) {
    place_of_word p = find(r, word);
    const launch &l = *current().in->running;
    if (p.kind == word_kind::departed) {
        cta &c = *current().in;
        if (c.departed)
            fail(EMU_CREDIT_EARLY, "CTA %d of rank %d departs twice", c.index, c.rank);
        c.departed = true;
        ++at(p.rank->departed, l.number);
    }
    if (p.kind != word_kind::mask)
        return;
    uint64_t value = before ^ after;
    if (operation != EMU_OR_RELEASE_SYS || value == 0)
        fail(EMU_BIT_TWICE, "rank %d's mask word at bit %zu was %#llx: the bit is set already", p.number, p.first_bit,
             static_cast<unsigned long long>(before));
    for (size_t i = 0; i < 64; ++i) {
        if ((value >> i & 1) == 0)
            continue;
        if (static_cast<int64_t>(p.first_bit + i) >= l.bits_limit[static_cast<size_t>(p.number)])
            fail(EMU_OUT_OF_BOUNDS, "bit %zu of rank %d's mask; this launch uses %lld", p.first_bit + i, p.number,
                 static_cast<long long>(l.bits_limit[static_cast<size_t>(p.number)]));
        monitored_rank::bit &b = p.rank->bits[p.first_bit + i];
        b.set_by = static_cast<int64_t>(l.number);
        b.seen = false;
        ++at(p.rank->set_in, l.number);
    }
}

void monitor_store(region &r, void *word, uint64_t before, uint64_t value) {
    place_of_word p = find(r, word);
    if (p.kind == word_kind::mask)
        clear_mask(p, before, value);
    else if (p.kind == word_kind::credit)
        give_credit(p, before, value);
    else if (p.kind == word_kind::epoch && value != before + 1)
        fail(EMU_CREDIT_EARLY, "rank %d's epoch goes from %llu to %llu", p.number,
             static_cast<unsigned long long>(before), static_cast<unsigned long long>(value));
}

void monitor_load(region &r, const void *word, uint64_t value) {
    place_of_word p = find(r, word);
    if (p.kind != word_kind::mask)
        return;
    for (size_t i = 0; i < 64; ++i)
        if (value >> i & 1)
            p.rank->bits[p.first_bit + i].seen = true;
}

void monitor_left(const launch &l, int number) {
    if (!the->protocol || l.bits.empty())
        return;
    monitored_rank &rank = the->protocol->ranks[static_cast<size_t>(number)];
    unsigned long long launch_number = l.number;
    const grs_control *control = reinterpret_cast<const grs_control *>(rank.control->base);
    if (control->epoch != l.number + 1 || control->departed != 0)
        fail(EMU_BIT_NEVER, "rank %d left launch %llu with epoch %llu and %u departures counted", number, launch_number,
             static_cast<unsigned long long>(control->epoch), control->departed);
    if (at(rank.set_in, l.number) != l.bits[static_cast<size_t>(number)])
        fail(EMU_BIT_NEVER, "rank %d left launch %llu after %lld bits of its mask had been set; there are %lld", number,
             launch_number, static_cast<long long>(at(rank.set_in, l.number)),
             static_cast<long long>(l.bits[static_cast<size_t>(number)]));
    for (size_t i = 0; i < rank.bits.size(); ++i)
        if (rank.bits[i].set_by >= 0 && rank.bits[i].set_by <= static_cast<int64_t>(l.number))
            fail(EMU_BIT_NEVER, "rank %d left launch %llu with bit %zu of its mask still set", number, launch_number,
                 i);
}

} // namespace emu
