#include "emulator/clock.h"

#include <stdlib.h>
#include <string.h>

#include "emulator/wide.h"

namespace emu {

namespace {

struct chunk { // counts of the agents of one CTA
    uint32_t references;
    uint32_t count[];
};

uint32_t space_ctas, space_agents;

chunk *chunk_copy(const chunk *from) {
    size_t bytes = sizeof(chunk) + space_agents * sizeof(uint32_t);
    chunk *made = static_cast<chunk *>(malloc(bytes));
    if (!made)
        abort();
    if (from)
        memcpy(made, from, bytes);
    else
        memset(made, 0, bytes);
    made->references = 1;
    return made;
}

void chunk_drop(chunk *c) {
    if (c && --c->references == 0)
        free(c);
}

void own_chunk(chunk *&c) { // makes it one that may be changed
    if (c && c->references == 1)
        return;
    chunk *old = c;
    c = chunk_copy(old);
    chunk_drop(old);
}

} // namespace

struct clock_node {
    uint32_t references;
    chunk *of[]; // by CTA; nullptr: all zero
};

namespace {

clock_node *node_copy(const clock_node *from) {
    size_t bytes = sizeof(clock_node) + space_ctas * sizeof(chunk *);
    clock_node *made = static_cast<clock_node *>(malloc(bytes));
    if (!made)
        abort();
    if (from)
        memcpy(made, from, bytes);
    else
        memset(made, 0, bytes);
    for (uint32_t i = 0; from && i < space_ctas; ++i)
        if (made->of[i])
            ++made->of[i]->references;
    made->references = 1;
    return made;
}

void node_drop(clock_node *node) {
    if (!node || --node->references != 0)
        return;
    for (uint32_t i = 0; i < space_ctas; ++i)
        chunk_drop(node->of[i]);
    free(node);
}

clock_node *node_keep(clock_node *node) {
    if (node)
        ++node->references;
    return node;
}

struct order {
    bool below, above; // some count is smaller, some is greater
};

// Eight counts at a time: the compiler makes one or two vector instructions of each operation.
typedef uint32_t eight __attribute__((vector_size(32)));

GRS_EMU_WIDE order compare(const chunk *a, const chunk *b) {
    if (a == b)
        return order{false, false};
    eight below = {}, above = {}, x = {}, y = {};
    for (uint32_t i = 0; i < space_agents; i += 8) {
        if (a)
            memcpy(&x, a->count + i, sizeof(x));
        if (b)
            memcpy(&y, b->count + i, sizeof(y));
        below |= reinterpret_cast<eight>(x < y);
        above |= reinterpret_cast<eight>(x > y);
    }
    uint32_t some_below = 0, some_above = 0;
    for (uint32_t i = 0; i < 8; ++i) {
        some_below |= below[i];
        some_above |= above[i];
    }
    return order{some_below != 0, some_above != 0};
}

clock_node *node_join(clock_node *a, clock_node *b) { // neither nullptr; returns a new reference
    bool below = false, above = false;
    for (uint32_t i = 0; i < space_ctas; ++i) {
        order o = compare(a->of[i], b->of[i]);
        below |= o.below;
        above |= o.above;
    }
    if (!below)
        return node_keep(a);
    if (!above)
        return node_keep(b);
    clock_node *made = node_copy(a);
    for (uint32_t i = 0; i < space_ctas; ++i) {
        order o = compare(a->of[i], b->of[i]);
        if (!o.below)
            continue;
        chunk *mine = made->of[i];
        if (!o.above) {
            made->of[i] = b->of[i];
            ++b->of[i]->references;
        } else {
            made->of[i] = chunk_copy(mine);
            for (uint32_t j = 0; j < space_agents; ++j)
                if (b->of[i]->count[j] > made->of[i]->count[j])
                    made->of[i]->count[j] = b->of[i]->count[j];
        }
        chunk_drop(mine);
    }
    return made;
}

// Joins seen before. It holds references, so an address cannot be reused while it stands here.
struct memory {
    clock_node *a, *b, *result;
};
constexpr uint32_t memory_size = 1024;
memory remembered[memory_size];

} // namespace

void clock_forget() {
    for (memory &m : remembered) {
        node_drop(m.a);
        node_drop(m.b);
        node_drop(m.result);
        m = memory{};
    }
}

void clock_space(uint32_t ctas, uint32_t agents_a_cta) {
    clock_forget();
    space_ctas = ctas;
    space_agents = (agents_a_cta + 7) / 8 * 8;
}

vector_clock::vector_clock(const vector_clock &other) : node_(node_keep(other.node_)) {}

vector_clock::~vector_clock() {
    node_drop(node_);
}

uint32_t vector_clock::get(uint32_t cta, uint32_t agent) const {
    return node_ && node_->of[cta] ? node_->of[cta]->count[agent] : 0;
}

void vector_clock::join(const vector_clock &other) {
    if (!other.node_ || other.node_ == node_)
        return;
    if (!node_) {
        node_ = node_keep(other.node_);
        return;
    }
    uint64_t key = reinterpret_cast<uintptr_t>(node_) * 31 + reinterpret_cast<uintptr_t>(other.node_);
    memory &m = remembered[(key * 0x9e3779b97f4a7c15u) >> 54];
    if (m.a != node_ || m.b != other.node_) {
        clock_node *result = node_join(node_, other.node_);
        node_drop(m.a);
        node_drop(m.b);
        node_drop(m.result);
        m = memory{node_keep(node_), node_keep(other.node_), result};
    }
    clock_node *old = node_;
    node_ = node_keep(m.result);
    node_drop(old);
}

void vector_clock::gather(const vector_clock &other) {
    if (!other.node_ || other.node_ == node_)
        return;
    if (!node_) {
        node_ = node_keep(other.node_);
        return;
    }
    for (uint32_t i = 0; i < space_ctas; ++i) {
        chunk *theirs = other.node_->of[i];
        order o = compare(node_->of[i], theirs);
        if (!o.below)
            continue;
        own_node();
        chunk *&mine = node_->of[i];
        if (!o.above) {
            chunk_drop(mine);
            mine = theirs;
            ++mine->references;
            continue;
        }
        own_chunk(mine);
        for (uint32_t j = 0; j < space_agents; ++j)
            if (theirs->count[j] > mine->count[j])
                mine->count[j] = theirs->count[j];
    }
}

void vector_clock::own_node() {
    if (node_ && node_->references == 1)
        return;
    clock_node *old = node_;
    node_ = node_copy(old);
    node_drop(old);
}

void vector_clock::raise(uint32_t cta, uint32_t agent, uint32_t count) {
    if (get(cta, agent) >= count)
        return;
    own_node();
    own_chunk(node_->of[cta]);
    node_->of[cta]->count[agent] = count;
}

} // namespace emu
