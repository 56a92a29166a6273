// reset: removes a log and its blocks, so its client has the whole limit again.
#include <array>

#include "blocks.hpp"
#include "command.hpp"
#include "forms.hpp"
#include "json.hpp"
#include "target.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::array kResetOptions = {kSecretOption};

Status runReset(const Context& context) {
    const std::string target = targetKey(context);
    Store store(context.settings);
    const std::string key = wholeKey(store, context, target);
    const std::string shown = context.shown(key);
    const Reply reply = store.ask(key, {"UNLINK", key});
    const Reply memory = store.ask(memoryKey(key), {"UNLINK", memoryKey(key)});
    const bool removed = checked(reply, "UNLINK").numberOr(0) + checked(memory, "UNLINK").numberOr(0) > 0;
    if (context.json) {
        print(Json().beginObject().bytes("key", shown).name("removed").boolean(removed).endObject().line() + "\n");
    } else if (removed) {
        print("removed " + printable(shown) + "\nnginx nodes may deny this client from memory for up to a second\n");
    } else {
        print("no log at " + printable(shown) + "\n");
    }
    return removed ? Status::Ok : Status::Warning;
}

}  // namespace

const ToolCommand kReset = {"reset", "NAME VALUE | KEY", "removes a log and the blocks of its client", kResetOptions,
                            runReset};

}  // namespace sliding_log::tool
