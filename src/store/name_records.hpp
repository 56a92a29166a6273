// Reads the records of whole NAMEs (sliding-log set NAME --all), about once a second: one worker of the node, by a GET
// of each, which no decision waits for.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>

#include "limit/override.hpp"
#include "metrics/name_record.hpp"
#include "redis/connection.hpp"
#include "servers/store_log.hpp"
#include "settings/settings.hpp"
#include "store/store_calls.hpp"

namespace sliding_log {

class NameRecords {
  public:
    NameRecords(StoreOfCalls& store, const RedisSettings& settings, StoreLog& log)
        : store_(store), settings_(settings), log_(log) {}

    /// The record of this NAME is read into `record`, which all workers share.
    void add(const LogSettings& limit, NameRecord& record);

    /// To be called about once a second, and when a server is ready: reads those that are due, and notices the end of
    /// those that cannot be read.
    void tick();

    /// The same for a store that is not needed yet: only keeps what others may have read.
    void touch();

  private:
    /// One record, and its commands on their way. Their replies arrive in order, that of the GET last.
    class Reading final : public ReplyTarget {
      public:
        Reading(NameRecords& owner, const LogSettings& limit, NameRecord& record);

        void tick();
        void touch();

      private:
        void replied(const redisReply* reply) override;
        bool isDue();
        void send(Server& server, bool isAsking);
        void use(const redisReply& reply);
        bool follow(const redisReply& reply);
        void tellOf(NameRecord::Change change, const redisReply& reply) const;
        void tellOfEnd(const char* why) const;
        void tellOfFailure(const char* what, std::string_view answer) const;

        NameRecords& owner_;
        NameRecord& record_;
        const std::string whose_;  // for messages
        std::string key_;
        std::string get_;
        std::uint16_t hashSlot_;
        Server* server_ = nullptr;  // that was asked last
        unsigned expected_ = 0;     // replies
        bool isToRead_ = false;     // by this worker, as soon as its server is ready
        bool isRedirected_ = false;
        std::optional<std::int64_t> toldMs_;  // the time of the server, in ms since 1970
    };

    StoreOfCalls& store_;
    const RedisSettings& settings_;
    StoreLog& log_;
    std::list<Reading> readings_;  // which servers refer to
};

}  // namespace sliding_log
