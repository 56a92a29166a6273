#include "findings.hpp"

#include <algorithm>

#include "colour.hpp"
#include "json.hpp"
#include "table.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

std::string_view statusName(Status status) {
    return status == Status::Ok ? "ok" : status == Status::Warning ? "warning" : "critical";
}

Colour colourOf(Status status) {
    return status == Status::Ok ? Colour::Good : status == Status::Warning ? Colour::Warning : Colour::Bad;
}

}  // namespace

void Findings::add(std::string_view check, Status status, std::string text) {
    all_.push_back({server_, std::string(check), status, std::move(text)});
}

void Findings::hidden(std::string_view check, ReplyView refusal) {
    add(check, Status::Warning, "could not be checked: " + printable(refusal.text()));
}

Status Findings::worst() const {
    Status worst = Status::Ok;
    for (const Finding& finding : all_) {
        worst = std::max(worst, finding.status);
    }
    return worst;
}

std::string Findings::human() const {
    std::string out;
    for (auto at = all_.begin(); at != all_.end();) {
        const auto end = std::find_if(at, all_.end(), [&](const Finding& each) { return each.server != at->server; });
        Table table({{""}, {""}, {""}});
        for (auto each = at; each != end; ++each) {
            const char* word = each->status == Status::Ok        ? "  ok"
                               : each->status == Status::Warning ? "  WARNING"
                                                                 : "  CRITICAL";
            table.row({{word, colourOf(each->status)}, each->check, each->text});
        }
        out += printable(at->server) + "\n" + table.text();
        at = end;
    }
    return out + "status: " + coloured(statusName(worst()), colourOf(worst())) + "\n";
}

std::string Findings::json() const {
    Json out;
    out.beginObject().member("status", statusName(worst())).name("checks").beginArray();
    for (const Finding& finding : all_) {
        out.beginObject().member("server", finding.server).member("check", finding.check);
        out.member("status", statusName(finding.status)).member("text", finding.text).endObject();
    }
    return out.endArray().endObject().line() + "\n";
}

}  // namespace sliding_log::tool
