#include "servers/native_forms.hpp"

#include "redis/native_command.hpp"

namespace sliding_log {

void NativeForms::choose(Call& call) const {
    call.isNative = isLoaded_ && call.mayBeNative() && !lacks_[call.nativeKind()];
    call.isShort = call.isNative && !lacksShort_ && call.canBeShort();
}

NativeForms::Meaning NativeForms::read(Call& call, std::string_view error) {
    const bool isUnable = isNativeUnable(error);
    if (call.isShort && (isUnable || isNativeArityWrong(error))) {
        lacksShort_ = call.leavesShort = true;
        return Meaning::Another;
    }
    if (isUnable) {
        // what is written anew would be sent to the native module again; an older one takes a plain call with costs or
        // options, and one without requests, for wrong arguments
        const bool isLacking = isNativeOlder(error) || !call.isRepeatable() || call.isPlainWithMore() ||
                               call.variant == Call::Variant::Ahead;
        lacks_[call.nativeKind()] = lacks_[call.nativeKind()] || isLacking;
        call.leavesNative = true;
        return Meaning::Another;
    }
    if (isNativeMissing(error) || isNativeForbidden(error)) {
        call.leavesNative = true;
        return Meaning::Absent;
    }
    return Meaning::Other;
}

}  // namespace sliding_log
