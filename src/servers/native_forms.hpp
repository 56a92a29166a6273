// Which calls the native module of a server decides, as far as a connection has shown.
#pragma once

#include <array>
#include <string_view>

#include "servers/call.hpp"

namespace sliding_log {

class NativeForms {
  public:
    /// A new connection: nothing is known.
    void forget() { *this = {}; }

    void told(bool isLoaded) { isLoaded_ = isLoaded; }

    /// Chooses the form in which the call is sent next.
    void choose(Call& call) const;

    /// What an error of a call that the native module got means.
    enum class Meaning {
        Other,    // it is no error of the native module
        Another,  // the call has another form next: a longer one than a short call, or a script
        Absent    // the same, and the module is not there, or not permitted
    };
    Meaning read(Call& call, std::string_view error);

  private:
    bool isLoaded_ = false;
    bool lacksShort_ = false;                       // it is older and knows no short calls
    std::array<bool, Call::kNativeKinds> lacks_{};  // by kind: the same
};

}  // namespace sliding_log
