// reset: a client begins anew.
#include <array>

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
    const std::array<Command, 2> commands = {{{"UNLINK", key}, {"UNLINK", blockKey(key)}}};
    const std::vector<Reply> replies = store.ask(key, commands);
    const bool log = checked(replies[0], "UNLINK").numberOr(0) > 0;
    const bool block = checked(replies[1], "UNLINK").numberOr(0) > 0;
    if (context.json) {
        Json out;
        out.beginObject().bytes("key", key).name("log_removed").boolean(log).name("block_removed").boolean(block);
        print(out.endObject().line() + "\n");
    } else if (log || block) {
        print(
            "removed " + printable(key) +
            (log && block ? " and its block"
             : block      ? "'s block"
                          : "") +
            "\nnginx nodes that denied this client may go on from memory, until the slot frees that Redis told them\n");
    } else {
        print("no log at " + printable(key) + "\n");
    }
    return log || block ? Status::Ok : Status::Warning;
}

}  // namespace

const ToolCommand kReset = {"reset", "NAME VALUE | KEY", "removes a log and its block", {}, run};

}  // namespace sliding_log::tool
