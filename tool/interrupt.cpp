#include "interrupt.hpp"

#include <csignal>
#include <ctime>

#include "failure.hpp"

namespace sliding_log::tool {

namespace {

volatile std::sig_atomic_t came = 0;

void note(int) {
    came = 1;
}

}  // namespace

void noteInterrupts() {
    struct sigaction action {};
    action.sa_handler = note;
    action.sa_flags = static_cast<int>(SA_RESETHAND);  // hiredis itself continues to read after EINTR
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
        sigaction(signal, &action, nullptr);
    }
    std::signal(SIGPIPE, SIG_IGN);  // `| head` closes standard output: the clean-up must still run
}

void endIfInterrupted() {
    if (came != 0) {
        throw Interrupted();
    }
}

void pauseFor(int milliseconds) {
    endIfInterrupted();
    const timespec length{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
    nanosleep(&length, nullptr);
    endIfInterrupted();
}

}  // namespace sliding_log::tool
