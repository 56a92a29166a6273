#include "store/name_records.hpp"

#include <algorithm>
#include <optional>

#include "limit/override_record.hpp"
#include "redis/hash_slots.hpp"
#include "redis/reply.hpp"
#include "redis/resp.hpp"
#include "shared/boot_time.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

const std::string kTime = command({"TIME"});

/// The reply to TIME: seconds and microseconds; nullopt: it is not permitted.
std::optional<std::int64_t> timeIn(const redisReply& reply) {
    std::int64_t seconds = 0;
    std::int64_t us = 0;
    if (reply.type != REDIS_REPLY_ARRAY || reply.elements != 2 ||
        !OverrideText::numberIn(replyText(*reply.element[0]), seconds) ||
        !OverrideText::numberIn(replyText(*reply.element[1]), us) || seconds > kLatestTimeMs / 1000) {
        return std::nullopt;
    }
    return std::min(seconds * 1000 + us / 1000, kLatestTimeMs);
}

/// Anybody may have written it: the error log has one line.
std::string oneLine(std::string_view text) {
    constexpr std::size_t kMost = 200;
    std::string line(text.substr(0, kMost));
    std::ranges::replace_if(
        line, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, ' ');
    return line;
}

std::string utcText(std::int64_t ms) {
    ngx_tm_t tm;
    ngx_gmtime(static_cast<time_t>(ms / 1000), &tm);
    u_char text[sizeof "2026-11-26T18:30:00Z" + NGX_INT_T_LEN];
    const u_char* end = ngx_sprintf(text, "%4d-%02d-%02dT%02d:%02d:%02dZ", tm.ngx_tm_year, tm.ngx_tm_mon,
                                    tm.ngx_tm_mday, tm.ngx_tm_hour, tm.ngx_tm_min, tm.ngx_tm_sec);
    return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(end - text)};
}

/// With its store if it may be in several.
std::string nameOf(const LogSettings& limit, const RedisSettings& store) {
    std::string text = std::string("limit \"").append(view(limit.name)).append("\"");
    return limit.homes.size() > 1 ? text.append(" in store \"").append(view(store.name)).append("\"") : text;
}

}  // namespace

void NameRecords::add(const LogSettings& limit, NameRecord& record) {
    readings_.emplace_back(*this, limit, record);
}

void NameRecords::tick() {
    for (Reading& each : readings_) {
        each.tick();
    }
}

void NameRecords::touch() {
    for (Reading& each : readings_) {
        each.touch();
    }
}

NameRecords::Reading::Reading(NameRecords& owner, const LogSettings& limit, NameRecord& record)
    : owner_(owner),
      record_(record),
      whose_(nameOf(limit, owner.settings_)),
      key_(std::string(view(owner.settings_.prefix)).append(view(limit.name)).append(kOverrideSuffix)),
      get_(command({"GET", key_})),
      hashSlot_(owner.settings_.mode == static_cast<ngx_uint_t>(Mode::Cluster) ? hashSlotOf(key_) : std::uint16_t{0}) {}

void NameRecords::Reading::touch() {
    record_.touch(nowMs());
}

void NameRecords::Reading::tick() {
    touch();
    switch (record_.end(bootTimeMs())) {
        case NameRecord::End::None:
            break;
        case NameRecord::End::Over:
            tellOfEnd("it is over");
            break;
        case NameRecord::End::Unread:
            tellOfEnd("it could not be read for a minute");
            break;
    }
    Server* server = owner_.store_.serverOf(hashSlot_);
    if (server == nullptr) {
        return;
    }
    // a worker whose connection is in trouble leaves it to the others; in a cluster nobody may have asked that server
    // yet
    isToRead_ = isToRead_ || ((server->hasReplied() || server->isIdle()) && isDue());
    if (isToRead_) {
        server->connectIfIdle();
    }
    if (isToRead_ && server->hasReplied() && expected_ == 0) {
        isToRead_ = isRedirected_ = false;
        send(*server, false);
    }
}

/// One that quits has no connection, and reads only what no newer worker does: that has another zone, or no such NAME.
bool NameRecords::Reading::isDue() {
    return mustQuit() ? record_.isOverdue(bootTimeMs()) : record_.isDue(bootTimeMs());
}

void NameRecords::Reading::send(Server& server, bool isAsking) {
    server_ = &server;
    toldMs_.reset();
    for (const std::string_view each : {std::string_view(kTime), isAsking ? kAsking : "", std::string_view(get_)}) {
        expected_ += !each.empty() && server.send(each, *this) ? 1 : 0;
    }
}

void NameRecords::Reading::replied(const redisReply* reply) {
    expected_--;
    if (reply == nullptr) {
        return;  // it is due again in a second
    }
    if (expected_ > 0) {
        toldMs_ = toldMs_ ? toldMs_ : timeIn(*reply);
        return;
    }
    use(*reply);
    owner_.store_.closeWhenUnused();
}

void NameRecords::Reading::use(const redisReply& reply) {
    const bool isError = reply.type == REDIS_REPLY_ERROR;
    const std::string_view text = reply.type == REDIS_REPLY_NIL ? std::string_view() : replyText(reply);
    const StoreError error = isError ? classifyError(text) : StoreError::None;
    if (error == StoreError::Moved || error == StoreError::Ask) {
        if (!follow(reply)) {
            tellOfFailure("could not be read", text);
        }
        return;
    }
    if (isError && error != StoreError::WrongType) {
        tellOfFailure(error == StoreError::Forbidden ? "may not be read, which requires +get and %R~ of its key"
                                                     : "could not be read",
                      text);
        return;
    }
    const std::optional<OverrideText> found = isError ? std::nullopt : OverrideText::read(text, RecordOf::Name);
    if (isError || (!found && !text.empty())) {
        tellOfFailure("is broken, and counts as none", isError ? text : std::string_view());
    }
    const std::uint64_t now = bootTimeMs();
    const std::int64_t serverMs = record_.serverMs(toldMs_, wallClockMs(), now);
    tellOf(record_.read(found ? found->override : Override(), serverMs, now), reply);
}

/// Once: servers that do not agree are asked again in a second.
bool NameRecords::Reading::follow(const redisReply& reply) {
    const std::optional<Redirect> redirect = readRedirect(replyText(reply));
    if (!redirect || isRedirected_) {
        return false;
    }
    isRedirected_ = true;
    const bool isAsking = classifyError(replyText(reply)) == StoreError::Ask;
    Server* target = owner_.store_.topology().follow(*redirect, *server_, !isAsking);
    if (target == nullptr || !target->canBeAsked() || !target->isReady()) {
        return target != nullptr;
    }
    send(*target, isAsking);
    return true;
}

void NameRecords::Reading::tellOf(NameRecord::Change change, const redisReply& reply) const {
    if (change == NameRecord::Change::None) {
        return;
    }
    if (change == NameRecord::Change::Ended) {
        tellOfEnd("it was removed, or is over");
        return;
    }
    const OverrideText text = *OverrideText::read(replyText(reply), RecordOf::Name);
    const std::string all[] = {whatText(text.override),
                               text.override.untilMs == 0 ? "unset" : utcText(text.override.untilMs), oneLine(text.by),
                               oneLine(text.why)};
    const ngx_str_t texts[] = {toNgx(whose_), toNgx(all[0]), toNgx(all[1]), toNgx(all[2]), toNgx(all[3])};
    ngx_log_error(NGX_LOG_ERR, owner_.log_.nginxLog(), 0, "%V: all keys have override %V until %V, by \"%V\": %V",
                  &texts[0], &texts[1], &texts[2], &texts[3], &texts[4]);
}

void NameRecords::Reading::tellOfEnd(const char* why) const {
    const ngx_str_t whose = toNgx(whose_);
    ngx_log_error(NGX_LOG_ERR, owner_.log_.nginxLog(), 0,
                  "%V: the override of all keys has ended: %s; the configuration counts", &whose, why);
}

void NameRecords::Reading::tellOfFailure(const char* what, std::string_view answer) const {
    if (record_.mayTell(bootTimeMs())) {
        const std::string line = oneLine(answer);
        const ngx_str_t texts[] = {toNgx(whose_), toNgx(key_), toNgx(line)};
        ngx_log_error(NGX_LOG_ERR, owner_.log_.nginxLog(), 0, "%V: the override of all keys, \"%V\", %s%s%V", &texts[0],
                      &texts[1], what, line.empty() ? "" : ": ", &texts[2]);
    }
}

}  // namespace sliding_log
