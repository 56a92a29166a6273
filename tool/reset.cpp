// reset: a client begins anew.
#include "command.hpp"
#include "forms.hpp"
#include "json.hpp"
#include "target.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

Status run(const Context& context) {
    const std::string key = targetKey(context);
    Store store(context.settings);
    const Reply reply = store.ask(key, {"UNLINK", key});
    const bool removed = checked(reply, "UNLINK").numberOr(0) > 0;
    if (context.json) {
        print(Json().beginObject().bytes("key", key).name("removed").boolean(removed).endObject().line() + "\n");
    } else if (removed) {
        print(
            "removed " + printable(key) +
            "\nnginx nodes that denied this client may go on from memory, until the slot frees that Redis told them\n");
    } else {
        print("no log at " + printable(key) + "\n");
    }
    return removed ? Status::Ok : Status::Warning;
}

}  // namespace

const ToolCommand kReset = {"reset", "NAME VALUE | KEY", "removes a log, and with it the block of its client", {}, run};

}  // namespace sliding_log::tool
