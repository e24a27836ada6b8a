// Fibers: a stack each, and a switch that saves the callee-saved registers alone. One OS thread runs them all.
#ifndef GRS_EMULATOR_FIBER_H
#define GRS_EMULATOR_FIBER_H

#include <stddef.h>
#include <stdint.h>
#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

namespace emu {

struct fiber {
    void *stack_pointer = nullptr;
    char *stack = nullptr; // lowest address; nullptr: the stack of the OS thread
    size_t stack_bytes = 0;
#if !defined(__x86_64__) && !defined(__aarch64__)
    ucontext_t context;
#endif
    void *sanitizer_stack = nullptr; // AddressSanitizer's shadow of this stack while it does not run
};

// Stacks of equal size in one mapping, each with an unreadable page below it. Pages are touched only when used.
class stack_pool {
  public:
    ~stack_pool();
    // False when the system refuses the memory.
    bool reserve(size_t count, size_t bytes_each);
    char *stack(size_t index) const { return base_ + index * stride_ + guard_; }
    size_t bytes() const { return stride_ - guard_; }

  private:
    char *base_ = nullptr;
    size_t total_ = 0, stride_ = 0, guard_ = 0;
};

// Prepares a fiber that calls entry(argument) when first switched to; entry must never return.
void fiber_prepare(fiber &f, char *stack, size_t bytes, void (*entry)(void *), void *argument);
// Runs `to` until somebody switches back to `from`. `last`: `from` will never run again.
void fiber_switch(fiber &from, fiber &to, bool last = false);
// The first thing that a fiber does when it runs for the first time.
void fiber_entered();

} // namespace emu

#endif
