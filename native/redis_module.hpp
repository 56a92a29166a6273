// The part of the module API of Redis 7 and Valkey 8 that this module uses. Functions are looked up by name when the
// module is loaded, so no header of the servers is needed.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct RedisModuleCtx;
struct RedisModuleKey;
struct RedisModuleString;
struct RedisModuleCallReply;
struct RedisModuleCommand;

using RedisModuleFunction = int (*)(RedisModuleCtx*, RedisModuleString**, int);
}

namespace sliding_log::api {

inline constexpr int kOk = 0;
inline constexpr int kVersion = 1;  // of the API

inline constexpr int kRead = 1 << 0;
inline constexpr int kWrite = 1 << 1;

enum KeyType { Empty = 0, String = 1, Hash = 3, Zset = 5 };
enum ReplyType { ReplyString = 0, ReplyError = 1, ReplyInteger = 2, ReplyArray = 3 };

inline constexpr long long kNoExpire = -1;

inline constexpr int kZaddNx = 1 << 1;
inline constexpr int kZaddAdded = 1 << 2;

// ---- the description of a command's keys

struct KeySpec {
    const char* notes;
    std::uint64_t flags;
    int beginSearch;
    union {
        struct {
            int position;
        } index;
        struct {
            const char* keyword;
            int startFrom;
        } keyword;
    } begin;
    int findKeys;
    union {
        struct {
            int lastKey;
            int step;
            int limit;
        } range;
        struct {
            int numberIndex;
            int firstKey;
            int step;
        } keyNumber;
    } find;
};

inline constexpr std::uint64_t kKeysReadWrite = 1ULL << 1;
inline constexpr std::uint64_t kKeysAccess = 1ULL << 4;
inline constexpr std::uint64_t kKeysUpdate = 1ULL << 5;
inline constexpr std::uint64_t kKeysIncomplete = 1ULL << 9;
inline constexpr std::uint64_t kKeysVariable = 1ULL << 10;
inline constexpr int kBeginAtIndex = 2;
inline constexpr int kFindByNumber = 3;

struct CommandInfoVersion {
    int version;
    std::size_t sizeOfHistoryEntry;
    std::size_t sizeOfKeySpec;
    std::size_t sizeOfArgument;
};

struct CommandInfo {
    const CommandInfoVersion* version;
    const char* summary;
    const char* complexity;
    const char* since;
    void* history;
    const char* tips;
    int arity;
    KeySpec* keySpecs;
    void* arguments;
};

// ---- functions: the name in the API, the result, the parameters

#define SLIDING_LOG_API(FUNCTION)                                                                               \
    FUNCTION(SetModuleAttribs, void, RedisModuleCtx*, const char*, int, int)                                    \
    FUNCTION(CreateCommand, int, RedisModuleCtx*, const char*, RedisModuleFunction, const char*, int, int, int) \
    FUNCTION(GetCommand, RedisModuleCommand*, RedisModuleCtx*, const char*)                                     \
    FUNCTION(SetCommandInfo, int, RedisModuleCommand*, const CommandInfo*)                                      \
    FUNCTION(IsKeysPositionRequest, int, RedisModuleCtx*)                                                       \
    FUNCTION(KeyAtPosWithFlags, void, RedisModuleCtx*, int, int)                                                \
    FUNCTION(WrongArity, int, RedisModuleCtx*)                                                                  \
    FUNCTION(ReplyWithArray, int, RedisModuleCtx*, long)                                                        \
    FUNCTION(ReplyWithLongLong, int, RedisModuleCtx*, long long)                                                \
    FUNCTION(ReplyWithStringBuffer, int, RedisModuleCtx*, const char*, std::size_t)                             \
    FUNCTION(ReplyWithError, int, RedisModuleCtx*, const char*)                                                 \
    FUNCTION(StringPtrLen, const char*, const RedisModuleString*, std::size_t*)                                 \
    FUNCTION(CreateString, RedisModuleString*, RedisModuleCtx*, const char*, std::size_t)                       \
    FUNCTION(FreeString, void, RedisModuleCtx*, RedisModuleString*)                                             \
    FUNCTION(OpenKey, RedisModuleKey*, RedisModuleCtx*, RedisModuleString*, int)                                \
    FUNCTION(CloseKey, void, RedisModuleKey*)                                                                   \
    FUNCTION(KeyType, int, RedisModuleKey*)                                                                     \
    FUNCTION(ValueLength, std::size_t, RedisModuleKey*)                                                         \
    FUNCTION(StringDMA, char*, RedisModuleKey*, std::size_t*, int)                                              \
    FUNCTION(StringSet, int, RedisModuleKey*, RedisModuleString*)                                               \
    FUNCTION(ZsetAdd, int, RedisModuleKey*, double, RedisModuleString*, int*)                                   \
    FUNCTION(ZsetRem, int, RedisModuleKey*, RedisModuleString*, int*)                                           \
    FUNCTION(ZsetFirstInScoreRange, int, RedisModuleKey*, double, double, int, int)                             \
    FUNCTION(ZsetLastInScoreRange, int, RedisModuleKey*, double, double, int, int)                              \
    FUNCTION(ZsetRangeCurrentElement, RedisModuleString*, RedisModuleKey*, double*)                             \
    FUNCTION(ZsetRangeNext, int, RedisModuleKey*)                                                               \
    FUNCTION(ZsetRangeEndReached, int, RedisModuleKey*)                                                         \
    FUNCTION(ZsetRangeStop, void, RedisModuleKey*)                                                              \
    FUNCTION(GetAbsExpire, long long, RedisModuleKey*)                                                          \
    FUNCTION(SetAbsExpire, int, RedisModuleKey*, long long)                                                     \
    FUNCTION(Milliseconds, long long)                                                                           \
    FUNCTION(GetUsedMemoryRatio, float)                                                                         \
    FUNCTION(Replicate, int, RedisModuleCtx*, const char*, const char*, ...)                                    \
    FUNCTION(Log, void, RedisModuleCtx*, const char*, const char*, ...)                                         \
    FUNCTION(Call, RedisModuleCallReply*, RedisModuleCtx*, const char*, const char*, ...)                       \
    FUNCTION(FreeCallReply, void, RedisModuleCallReply*)                                                        \
    FUNCTION(CallReplyType, int, RedisModuleCallReply*)                                                         \
    FUNCTION(CallReplyInteger, long long, RedisModuleCallReply*)                                                \
    FUNCTION(CallReplyLength, std::size_t, RedisModuleCallReply*)                                               \
    FUNCTION(CallReplyArrayElement, RedisModuleCallReply*, RedisModuleCallReply*, std::size_t)                  \
    FUNCTION(CallReplyStringPtr, const char*, RedisModuleCallReply*, std::size_t*)

#define SLIDING_LOG_DECLARE(name, result, ...) inline result (*name)(__VA_ARGS__) = nullptr;
SLIDING_LOG_API(SLIDING_LOG_DECLARE)
#undef SLIDING_LOG_DECLARE

/// nullptr in versions without it.
inline int (*SetCommandACLCategories)(RedisModuleCommand*, const char*) = nullptr;

/// Looks up all functions; false if the server lacks one.
bool load(RedisModuleCtx* context);

}  // namespace sliding_log::api
