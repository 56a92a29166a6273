// The functions of the module API that native/ uses (native/redis_module.hpp), over a keyspace. They do what Redis 7.0
// does, as far as native/ can tell.
#include "module_api.hpp"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstring>
#include <limits>
#include <memory>

#include "native_module.hpp"
#include "routing.hpp"
#include "state.hpp"

struct RedisModuleString {
    std::string own;  // unless it is a word of the call
    std::string_view text;
};

struct RedisModuleKey {
    simulate::Execution* execution;
    std::string_view name;
    simulate::Keyspace::Key* key;
    // a range of a ZSET: ranks
    std::size_t rank = 0;
    std::size_t end = 0;  // behind the range
    bool hasEnded = true;
};

struct RedisModuleCallReply {
    std::shared_ptr<const std::string> whole;
    std::size_t at = 0;
    simulate::Head head{};
    std::vector<std::unique_ptr<RedisModuleCallReply>> elements{};  // made on demand
};

namespace simulate {

namespace {

namespace api = sliding_log::api;

constexpr int kError = 1;
constexpr int kNullReply = 4;

/// The innermost call: some functions are not told the context.
ModuleCall* innermost = nullptr;

Execution& executionOf(RedisModuleCtx* context) {
    return context->call->execution();
}

// ---- the module and its commands

void setModuleAttribs(RedisModuleCtx*, const char*, int, int) {}

int createCommand(RedisModuleCtx* context, const char* name, RedisModuleFunction function, const char*, int, int, int) {
    context->call->module().add(name, function);
    return api::kOk;
}

RedisModuleCommand* getCommand(RedisModuleCtx* context, const char*) {
    return reinterpret_cast<RedisModuleCommand*>(context);  // only compared with nullptr, and handed back
}

int setCommandInfo(RedisModuleCommand*, const api::CommandInfo*) {
    return api::kOk;
}

int isKeysPositionRequest(RedisModuleCtx*) {
    return 0;
}

void keyAtPosWithFlags(RedisModuleCtx*, int, int) {}

void log(RedisModuleCtx*, const char*, const char*, ...) {}

// ---- replies

int replyWithError(RedisModuleCtx* context, const char* error) {
    executionOf(context).error(error);
    return api::kOk;
}

int wrongArity(RedisModuleCtx* context) {
    return replyWithError(context, "ERR wrong number of arguments for 'sliding_log.2' command");
}

int replyWithArray(RedisModuleCtx* context, long elements) {
    appendArray(executionOf(context).reply(), static_cast<std::size_t>(elements));
    return api::kOk;
}

int replyWithLongLong(RedisModuleCtx* context, long long number) {
    appendInteger(executionOf(context).reply(), number);
    return api::kOk;
}

int replyWithStringBuffer(RedisModuleCtx* context, const char* text, std::size_t length) {
    appendBulk(executionOf(context).reply(), {text, length});
    return api::kOk;
}

// ---- strings

/// Strings come and go at each call, so they are used again.
std::vector<std::unique_ptr<RedisModuleString>>& spareStrings() {
    static std::vector<std::unique_ptr<RedisModuleString>> spare;
    return spare;
}

RedisModuleString* makeString(std::string_view text) {
    auto& spare = spareStrings();
    RedisModuleString* string = nullptr;
    if (spare.empty()) {
        string = new RedisModuleString;
    } else {
        string = spare.back().release();
        spare.pop_back();
    }
    string->own.assign(text);
    string->text = string->own;
    return string;
}

const char* stringPtrLen(const RedisModuleString* string, std::size_t* length) {
    *length = string->text.size();
    return string->text.data();
}

RedisModuleString* createString(RedisModuleCtx*, const char* text, std::size_t length) {
    return makeString({text, length});
}

void freeString(RedisModuleCtx*, RedisModuleString* string) {
    spareStrings().emplace_back(string);
}

// ---- keys

RedisModuleKey* openKey(RedisModuleCtx* context, RedisModuleString* name, int) {
    Execution& execution = executionOf(context);
    constexpr std::int64_t kOpenNs = 150;
    execution.works(kOpenNs);
    return new RedisModuleKey{.execution = &execution, .name = name->text, .key = execution.find(name->text)};
}

void closeKey(RedisModuleKey* key) {
    delete key;
}

Zset* zsetOf(RedisModuleKey* key) {
    return key->key == nullptr ? nullptr : std::get_if<Zset>(&key->key->value);
}

std::string* textOf(RedisModuleKey* key) {
    return key->key == nullptr ? nullptr : std::get_if<std::string>(&key->key->value);
}

int keyType(RedisModuleKey* key) {
    constexpr int kList = 2;
    constexpr std::array<int, 4> kTypes = {api::String, api::Zset, api::Hash, kList};
    return key->key == nullptr ? static_cast<int>(api::Empty) : kTypes[key->key->value.index()];
}

std::size_t valueLength(RedisModuleKey* key) {
    return key->key == nullptr ? 0 : std::visit([](const auto& value) { return value.size(); }, key->key->value);
}

char* stringDma(RedisModuleKey* key, std::size_t* length, int) {
    static char empty[] = "<dma-empty-string>";
    if (key->key == nullptr) {
        *length = 0;
        return empty;
    }
    std::string* text = textOf(key);
    if (text == nullptr) {
        return nullptr;
    }
    *length = text->size();
    return text->data();
}

int stringSet(RedisModuleKey* key, RedisModuleString* value) {
    Execution& execution = *key->execution;
    if (std::string* text = textOf(key); text != nullptr) {
        text->assign(value->text);
        execution.setExpiry(key->name, Keyspace::kNoExpiry);
    } else {
        execution.keys().remove(key->name);
        key->key = &execution.keys().add(key->name, std::string(value->text));
    }
    execution.changed(key->name);
    return api::kOk;
}

int zsetAdd(RedisModuleKey* key, double score, RedisModuleString* member, int* flags) {
    Execution& execution = *key->execution;
    Zset* zset = zsetOf(key);
    if (key->key != nullptr && zset == nullptr) {
        return kError;
    }
    if (zset == nullptr) {
        key->key = &execution.keys().add(key->name, Zset());
        zset = zsetOf(key);
    }
    const std::string name(member->text);
    const bool isNew = !zset->scoreOf(name);
    const bool isKept = !isNew && (*flags & api::kZaddNx) != 0;
    *flags = isNew ? api::kZaddAdded : 0;
    if (!isKept) {
        zset->set(name, score);
        execution.changed(key->name);
    }
    return api::kOk;
}

int zsetRem(RedisModuleKey* key, RedisModuleString* member, int* deleted) {
    Zset* zset = zsetOf(key);
    if (key->key != nullptr && zset == nullptr) {
        return kError;
    }
    const bool isRemoved = zset != nullptr && zset->remove(std::string(member->text));
    if (isRemoved) {
        key->key = zset->size() == 0 ? nullptr : key->key;
        key->execution->changed(key->name);
    }
    if (deleted != nullptr) {
        *deleted = isRemoved ? 1 : 0;
    }
    return api::kOk;
}

/// Ranks of the range; false if the key is no ZSET.
bool findRange(RedisModuleKey* key, double least, double most, bool isAbove, bool isBelow, std::size_t& first,
               std::size_t& end) {
    const Zset* zset = zsetOf(key);
    if (zset == nullptr) {
        return false;
    }
    first = least == -std::numeric_limits<double>::infinity() && !isAbove ? 0 : zset->rankOf(least, isAbove);
    end = most == std::numeric_limits<double>::infinity() && !isBelow ? zset->size() : zset->rankOf(most, !isBelow);
    return true;
}

int zsetFirstInScoreRange(RedisModuleKey* key, double least, double most, int isAbove, int isBelow) {
    if (!findRange(key, least, most, isAbove != 0, isBelow != 0, key->rank, key->end)) {
        return kError;
    }
    key->hasEnded = key->rank >= key->end;
    return api::kOk;
}

int zsetLastInScoreRange(RedisModuleKey* key, double least, double most, int isAbove, int isBelow) {
    std::size_t first = 0;
    if (!findRange(key, least, most, isAbove != 0, isBelow != 0, first, key->end)) {
        return kError;
    }
    key->hasEnded = first >= key->end;
    key->rank = key->hasEnded ? first : key->end - 1;
    return api::kOk;
}

RedisModuleString* zsetRangeCurrentElement(RedisModuleKey* key, double* score) {
    const Zset* zset = zsetOf(key);
    if (zset == nullptr || key->hasEnded) {
        return nullptr;
    }
    constexpr std::int64_t kToldNs = 50;
    key->execution->works(kToldNs);
    const Zset::Entry& entry = zset->at(key->rank);
    if (score != nullptr) {
        *score = entry.score;
    }
    return makeString(entry.member);
}

int zsetRangeNext(RedisModuleKey* key) {
    key->hasEnded = key->hasEnded || key->rank + 1 >= key->end;
    key->rank += key->hasEnded ? 0 : 1;
    return key->hasEnded ? 0 : 1;
}

int zsetRangeEndReached(RedisModuleKey* key) {
    return key->hasEnded ? 1 : 0;
}

void zsetRangeStop(RedisModuleKey* key) {
    key->hasEnded = true;
}

long long getAbsExpire(RedisModuleKey* key) {
    return key->key == nullptr ? api::kNoExpire : key->key->expiry;
}

int setAbsExpire(RedisModuleKey* key, long long ms) {
    if (key->key == nullptr || (ms < 0 && ms != api::kNoExpire)) {
        return kError;
    }
    key->execution->setExpiry(key->name, ms);
    return api::kOk;
}

// ---- the server

long long milliseconds() {
    return innermost->execution().nowMs();
}

float getUsedMemoryRatio() {
    const ServerState& state = innermost->execution().state();
    return state.maxmemory == 0
               ? 0
               : static_cast<float>(static_cast<double>(state.usedMemory()) / static_cast<double>(state.maxmemory));
}

// ---- commands

/// What a format says of a call.
struct Call {
    std::vector<std::string> words;
    bool isReplicated = false;
    bool tellsErrors = false;
    bool isOfUser = false;
    bool obeysMemory = false;
};

Call readCall(const char* command, const char* format, va_list arguments) {
    Call call;
    call.words.emplace_back(command);
    for (; *format != '\0'; format++) {
        switch (*format) {
            case 's': {
                call.words.emplace_back(va_arg(arguments, RedisModuleString*)->text);
                break;
            }
            case 'c':
                call.words.emplace_back(va_arg(arguments, const char*));
                break;
            case 'b': {
                const char* text = va_arg(arguments, const char*);
                call.words.emplace_back(text, va_arg(arguments, std::size_t));
                break;
            }
            case 'l':
                call.words.push_back(std::to_string(va_arg(arguments, long long)));
                break;
            case 'v': {
                RedisModuleString** strings = va_arg(arguments, RedisModuleString**);
                const std::size_t count = va_arg(arguments, std::size_t);
                for (std::size_t i = 0; i < count; i++) {
                    call.words.emplace_back(strings[i]->text);
                }
                break;
            }
            case '!':
                call.isReplicated = true;
                break;
            case 'E':
                call.tellsErrors = true;
                break;
            case 'C':
                call.isOfUser = true;
                break;
            case 'M':
                call.obeysMemory = true;
                break;
            default:
                break;
        }
    }
    return call;
}

int replicate(RedisModuleCtx* context, const char* command, const char* format, ...) {
    Execution& execution = executionOf(context);
    if (!execution.keepsEffects()) {
        return api::kOk;
    }
    va_list arguments;
    va_start(arguments, format);
    Call call = readCall(command, format, arguments);
    va_end(arguments);
    execution.note(std::move(call.words));
    return api::kOk;
}

/// Why the call is refused; empty: it is not.
std::string refusalOf(Execution& execution, const CommandRow* row, Words words, const Call& call) {
    if (row == nullptr) {
        return "ERR unknown command '" + std::string(words[0]) + "'";
    }
    const auto count = static_cast<int>(words.size());
    if (row->arity > 0 ? count != row->arity : count < -row->arity) {
        return "ERR wrong number of arguments for '" + std::string(row->name) + "' command";
    }
    const ServerState& state = execution.state();
    if (call.isOfUser && state.forbidden.contains(row->name)) {
        return "ERR acl verification failed, can't run this command or subcommand.";
    }
    if (call.obeysMemory && (row->flags & kGrows) != 0 && execution.wasFull()) {
        return std::string(kOutOfMemory);
    }
    if (state.cluster && routeOf(execution, *row, words).kind != Route::Here) {
        return "ERR Attempted to access a non local key in a cluster node";
    }
    return {};
}

std::unique_ptr<RedisModuleCallReply> replyAt(const std::shared_ptr<const std::string>& whole, std::size_t at) {
    auto reply = std::make_unique<RedisModuleCallReply>();
    reply->whole = whole;
    reply->at = at;
    reply->head = headAt(*whole, at);
    return reply;
}

RedisModuleCallReply* callCommand(RedisModuleCtx* context, const char* command, const char* format, ...) {
    constexpr std::int64_t kCallNs = 300;
    Execution& execution = executionOf(context);
    va_list arguments;
    va_start(arguments, format);
    const Call call = readCall(command, format, arguments);
    va_end(arguments);
    const std::vector<std::string_view> words(call.words.begin(), call.words.end());
    const CommandRow* row = commandNamed(words[0]);
    auto text = std::make_shared<std::string>();
    execution.works(kCallNs);
    if (const std::string refusal = refusalOf(execution, row, words, call); !refusal.empty()) {
        if (!call.tellsErrors) {
            return nullptr;
        }
        appendError(*text, refusal);
    } else {
        std::string* outer = execution.replyTo(text.get());
        execution.setSilent(!call.isReplicated);
        execution.run(*row, words);
        execution.setSilent(true);
        execution.replyTo(outer);
    }
    return replyAt(text, 0).release();
}

void freeCallReply(RedisModuleCallReply* reply) {
    delete reply;
}

int callReplyType(RedisModuleCallReply* reply) {
    switch (reply->head.kind) {
        case '-':
            return api::ReplyError;
        case ':':
            return api::ReplyInteger;
        case '*':
            return api::ReplyArray;
        case '$':
            return reply->head.number < 0 ? kNullReply : static_cast<int>(api::ReplyString);
        default:
            return api::ReplyString;
    }
}

long long callReplyInteger(RedisModuleCallReply* reply) {
    return reply->head.number;
}

std::size_t callReplyLength(RedisModuleCallReply* reply) {
    const bool hasLength = reply->head.kind == '*' || reply->head.kind == '$';
    return hasLength && reply->head.number > 0 ? static_cast<std::size_t>(reply->head.number) : 0;
}

RedisModuleCallReply* callReplyArrayElement(RedisModuleCallReply* reply, std::size_t index) {
    if (reply->head.kind != '*' || index >= callReplyLength(reply)) {
        return nullptr;
    }
    if (reply->elements.empty()) {
        std::size_t at = reply->head.next;
        for (std::size_t i = 0; i < callReplyLength(reply); i++) {
            reply->elements.push_back(replyAt(reply->whole, at));
            at = endOfElement(*reply->whole, at);
        }
    }
    return reply->elements[index].get();
}

const char* callReplyStringPtr(RedisModuleCallReply* reply, std::size_t* length) {
    if (reply->head.kind == '$' && reply->head.number >= 0) {
        *length = static_cast<std::size_t>(reply->head.number);
        return reply->whole->data() + reply->head.next;
    }
    if (reply->head.kind == '+' || reply->head.kind == '-') {
        *length = reply->head.line.size();
        return reply->head.line.data();
    }
    return nullptr;
}

// ---- functions by name

template <typename Function>
void* asPointer(Function* function) {
    return reinterpret_cast<void*>(function);
}

struct Named {
    std::string_view name;
    void* function;
};

const Named kFunctions[] = {
    {"SetModuleAttribs", asPointer(setModuleAttribs)},
    {"CreateCommand", asPointer(createCommand)},
    {"GetCommand", asPointer(getCommand)},
    {"SetCommandInfo", asPointer(setCommandInfo)},
    {"IsKeysPositionRequest", asPointer(isKeysPositionRequest)},
    {"KeyAtPosWithFlags", asPointer(keyAtPosWithFlags)},
    {"WrongArity", asPointer(wrongArity)},
    {"ReplyWithArray", asPointer(replyWithArray)},
    {"ReplyWithLongLong", asPointer(replyWithLongLong)},
    {"ReplyWithStringBuffer", asPointer(replyWithStringBuffer)},
    {"ReplyWithError", asPointer(replyWithError)},
    {"StringPtrLen", asPointer(stringPtrLen)},
    {"CreateString", asPointer(createString)},
    {"FreeString", asPointer(freeString)},
    {"OpenKey", asPointer(openKey)},
    {"CloseKey", asPointer(closeKey)},
    {"KeyType", asPointer(keyType)},
    {"ValueLength", asPointer(valueLength)},
    {"StringDMA", asPointer(stringDma)},
    {"StringSet", asPointer(stringSet)},
    {"ZsetAdd", asPointer(zsetAdd)},
    {"ZsetRem", asPointer(zsetRem)},
    {"ZsetFirstInScoreRange", asPointer(zsetFirstInScoreRange)},
    {"ZsetLastInScoreRange", asPointer(zsetLastInScoreRange)},
    {"ZsetRangeCurrentElement", asPointer(zsetRangeCurrentElement)},
    {"ZsetRangeNext", asPointer(zsetRangeNext)},
    {"ZsetRangeEndReached", asPointer(zsetRangeEndReached)},
    {"ZsetRangeStop", asPointer(zsetRangeStop)},
    {"GetAbsExpire", asPointer(getAbsExpire)},
    {"SetAbsExpire", asPointer(setAbsExpire)},
    {"Milliseconds", asPointer(milliseconds)},
    {"GetUsedMemoryRatio", asPointer(getUsedMemoryRatio)},
    {"Replicate", asPointer(replicate)},
    {"Log", asPointer(log)},
    {"Call", asPointer(callCommand)},
    {"FreeCallReply", asPointer(freeCallReply)},
    {"CallReplyType", asPointer(callReplyType)},
    {"CallReplyInteger", asPointer(callReplyInteger)},
    {"CallReplyLength", asPointer(callReplyLength)},
    {"CallReplyArrayElement", asPointer(callReplyArrayElement)},
    {"CallReplyStringPtr", asPointer(callReplyStringPtr)},
};

int findFunction(const char* name, void* target) {
    constexpr std::string_view kPrefix = "RedisModule_";
    const std::string_view wanted = std::string_view(name).substr(kPrefix.size());
    const auto* const found = std::ranges::find(kFunctions, wanted, &Named::name);
    if (found == std::end(kFunctions)) {
        return kError;
    }
    std::memcpy(target, &found->function, sizeof(found->function));
    return api::kOk;
}

}  // namespace

ModuleCall::ModuleCall(Execution& execution, NativeModule& module)
    : context_{findFunction, this}, execution_(execution), module_(module), outer_(std::exchange(innermost, this)) {
    execution_.setSilent(true);
}

ModuleCall::~ModuleCall() {
    execution_.setSilent(false);
    innermost = outer_;
}

void ModuleCall::run(RedisModuleFunction function, Words words) {
    std::vector<RedisModuleString> strings;
    std::vector<RedisModuleString*> pointers;
    strings.reserve(words.size());
    pointers.reserve(words.size());
    for (const std::string_view word : words) {
        strings.push_back({.own = {}, .text = word});
        pointers.push_back(&strings.back());
    }
    function(&context_, pointers.data(), static_cast<int>(pointers.size()));
}

}  // namespace simulate
