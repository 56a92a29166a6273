#include "lua_scripts.hpp"

#include <cmath>
#include <cstring>
#include <vector>

#include "limit/key.hpp"
#include "routing.hpp"
#include "state.hpp"

extern "C" {
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
}

// lua_error() leaves functions without destructors of their variables, so functions that call it have none.

namespace simulate {

struct LuaScripts::Machine {
    lua_State* lua;
    Execution* execution = nullptr;  // during a call
    bool hasWritten = false;
};

namespace {

constexpr std::int64_t kCallNs = 1'000;
constexpr std::int64_t kByteNs = 40;  // a Lua string is made of it, and read

/// Of a script's loops. What short ones execute is part of what each script takes.
constexpr int kInstructions = 1'000;
constexpr std::int64_t kInstructionNs = 10;

constexpr const char* kMachine = "simulate.machine";

LuaScripts::Machine& machineOf(lua_State* lua);

void pushError(lua_State* lua, std::string_view error) {
    lua_newtable(lua);
    lua_pushlstring(lua, error.data(), error.size());
    lua_setfield(lua, -2, "err");
}

/// Pushes the element that begins there; returns where it ends.
std::size_t pushElement(lua_State* lua, std::string_view reply, std::size_t at) {
    const Head head = headAt(reply, at);
    switch (head.kind) {
        case ':':
            lua_pushnumber(lua, static_cast<lua_Number>(head.number));
            return head.next;
        case '+':
            lua_newtable(lua);
            lua_pushlstring(lua, head.line.data(), head.line.size());
            lua_setfield(lua, -2, "ok");
            return head.next;
        case '-':
            pushError(lua, head.line);
            return head.next;
        case '$':
            if (head.number < 0) {
                lua_pushboolean(lua, 0);
                return head.next;
            }
            lua_pushlstring(lua, reply.data() + head.next, static_cast<std::size_t>(head.number));
            return head.next + static_cast<std::size_t>(head.number) + 2;
        default:
            break;
    }
    std::size_t next = head.next;
    lua_createtable(lua, static_cast<int>(head.number), 0);
    for (int i = 1; i <= head.number; i++) {
        next = pushElement(lua, reply, next);
        lua_rawseti(lua, -2, i);
    }
    return next;
}

/// Why a script may not run this command; empty: it may.
std::string refusalOf(LuaScripts::Machine& machine, const CommandRow* row, Words words);

/// Runs the command on the stack and pushes its reply; false if that is an error.
bool runCommand(lua_State* lua);

int redisCall(lua_State* lua) {
    return runCommand(lua) ? 1 : lua_error(lua);
}

int redisPcall(lua_State* lua) {
    runCommand(lua);
    return 1;
}

int sha1hex(lua_State* lua) {
    std::size_t length = 0;
    const char* text = lua_tolstring(lua, 1, &length);
    char digits[40];
    sliding_log::writeSha1Hex(digits, {text, length});
    lua_pushlstring(lua, digits, sizeof(digits));
    return 1;
}

/// Redis replaces pcall by one that turns the error of a command into its text.
int protectedCall(lua_State* lua) {
    const int arguments = lua_gettop(lua);
    lua_pushboolean(lua, 1);
    lua_insert(lua, 1);
    if (lua_pcall(lua, arguments - 1, LUA_MULTRET, 0) != 0) {
        lua_remove(lua, 1);
        if (lua_istable(lua, -1)) {
            lua_getfield(lua, -1, "err");
            if (lua_isstring(lua, -1)) {
                lua_replace(lua, -2);
            }
        }
        lua_pushboolean(lua, 0);
        lua_insert(lua, 1);
    }
    return lua_gettop(lua);
}

/// The size of a number in a format of struct, of which '>', 'B' and 'I' are known; 0: there is no more.
std::size_t nextSize(lua_State* lua, const char*& format) {
    if (*format == '>') {
        format++;
    }
    if (*format == '\0') {
        return 0;
    }
    if (*format == 'B') {
        format++;
        return 1;
    }
    if (*format != 'I' || format[1] < '1' || format[1] > '8') {
        return static_cast<std::size_t>(luaL_error(lua, "this format of struct is not simulated"));
    }
    format += 2;
    return static_cast<std::size_t>(format[-1] - '0');
}

int structPack(lua_State* lua) {
    luaL_Buffer buffer;
    const char* format = luaL_checkstring(lua, 1);
    luaL_buffinit(lua, &buffer);
    int argument = 2;
    while (const std::size_t size = nextSize(lua, format)) {
        const lua_Number number = luaL_checknumber(lua, argument++);
        const auto bits = number < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(number))
                                     : static_cast<std::uint64_t>(number);
        for (std::size_t i = size; i > 0; i--) {
            luaL_addchar(&buffer, static_cast<char>(bits >> (8 * (i - 1))));
        }
    }
    luaL_pushresult(&buffer);
    return 1;
}

int structUnpack(lua_State* lua) {
    const char* format = luaL_checkstring(lua, 1);
    std::size_t length = 0;
    const char* bytes = luaL_checklstring(lua, 2, &length);
    auto at = static_cast<std::size_t>(luaL_optinteger(lua, 3, 1)) - 1;
    lua_settop(lua, 2);
    while (const std::size_t size = nextSize(lua, format)) {
        luaL_argcheck(lua, size <= length && at <= length - size, 2, "data string too short");
        luaL_checkstack(lua, 1, "too many results");
        std::uint64_t bits = 0;
        for (std::size_t i = 0; i < size; i++) {
            bits = bits << 8 | static_cast<unsigned char>(bytes[at + i]);
        }
        lua_pushnumber(lua, static_cast<lua_Number>(bits));
        at += size;
    }
    lua_pushinteger(lua, static_cast<lua_Integer>(at + 1));
    return lua_gettop(lua) - 2;
}

/// Adds the place of an error that nothing catches, as Redis tells it.
int errorHandler(lua_State* lua) {
    lua_Debug place;
    bool hasPlace = lua_getstack(lua, 1, &place) != 0 && lua_getinfo(lua, "Sl", &place) != 0;
    if (hasPlace && *place.what == 'C') {
        hasPlace = lua_getstack(lua, 2, &place) != 0 && lua_getinfo(lua, "Sl", &place) != 0;
    }
    if (!lua_istable(lua, 1)) {
        lua_newtable(lua);
        lua_pushfstring(lua, "ERR %s", lua_tostring(lua, 1));
        lua_setfield(lua, -2, "err");
    }
    if (hasPlace) {
        lua_pushfstring(lua, "%s:%d", place.source, place.currentline);
        lua_setfield(lua, -2, "place");
    }
    return 1;
}

/// Writes the value on the top of the stack as a reply, and pops it.
void tell(lua_State* lua, std::string& reply);

/// The text in a field of the table on the top of the stack; false if there is none.
bool fieldOf(lua_State* lua, const char* name, std::string& text) {
    lua_pushstring(lua, name);
    lua_rawget(lua, -2);
    const bool isText = lua_type(lua, -1) == LUA_TSTRING;
    if (isText) {
        text = lua_tostring(lua, -1);
    }
    lua_pop(lua, 1);
    return isText;
}

void tellTable(lua_State* lua, std::string& reply) {
    std::string text;
    if (fieldOf(lua, "err", text)) {
        return appendError(reply, text);
    }
    if (fieldOf(lua, "ok", text)) {
        return appendStatus(reply, text);
    }
    std::string elements;
    int count = 0;
    for (;;) {
        lua_pushnumber(lua, count + 1);
        lua_rawget(lua, -2);
        if (lua_isnil(lua, -1)) {
            lua_pop(lua, 1);
            break;
        }
        tell(lua, elements);
        count++;
    }
    appendArray(reply, static_cast<std::size_t>(count));
    reply.append(elements);
}

void tell(lua_State* lua, std::string& reply) {
    std::size_t length = 0;
    switch (lua_type(lua, -1)) {
        case LUA_TSTRING: {
            const char* text = lua_tolstring(lua, -1, &length);
            appendBulk(reply, {text, length});
            break;
        }
        case LUA_TNUMBER:
            appendInteger(reply, static_cast<std::int64_t>(lua_tonumber(lua, -1)));
            break;
        case LUA_TBOOLEAN:
            if (lua_toboolean(lua, -1) != 0) {
                appendInteger(reply, 1);
            } else {
                appendNil(reply);
            }
            break;
        case LUA_TTABLE:
            tellTable(lua, reply);
            break;
        default:
            appendNil(reply);
            break;
    }
    lua_pop(lua, 1);
}

LuaScripts::Machine& machineOf(lua_State* lua) {
    lua_getfield(lua, LUA_REGISTRYINDEX, kMachine);
    auto* machine = static_cast<LuaScripts::Machine*>(lua_touserdata(lua, -1));
    lua_pop(lua, 1);
    return *machine;
}

std::string refusalOf(LuaScripts::Machine& machine, const CommandRow* row, Words words) {
    Execution& execution = *machine.execution;
    const ServerState& state = execution.state();
    if (row == nullptr) {
        return "ERR Unknown Redis command called from script";
    }
    if ((row->flags & kNotInScripts) != 0) {
        return "ERR This Redis command is not allowed from script";
    }
    const auto count = static_cast<int>(words.size());
    if (row->arity > 0 ? count != row->arity : count < -row->arity) {
        return "ERR Wrong number of args calling Redis command from script";
    }
    if (state.forbidden.contains(row->name)) {
        return "ERR The user executing the script can't run this command or subcommand";
    }
    const bool writes = (row->flags & kWrites) != 0;
    if (writes && state.role == Role::Replica) {
        return std::string(kReadOnly);
    }
    if (writes && !state.refusalOfWrites().empty()) {
        return std::string(state.refusalOfWrites());
    }
    if ((row->flags & kGrows) != 0 && !machine.hasWritten && execution.wasFull()) {
        return std::string(kOutOfMemory);
    }
    machine.hasWritten = machine.hasWritten || writes;
    if (state.cluster && routeOf(execution, *row, words).kind != Route::Here) {
        return "ERR Script attempted to access a non local key in a cluster node";
    }
    return {};
}

bool runCommand(lua_State* lua) {
    LuaScripts::Machine& machine = machineOf(lua);
    Execution& execution = *machine.execution;
    std::vector<std::string> own(static_cast<std::size_t>(lua_gettop(lua)));
    std::vector<std::string_view> words;
    for (int i = 1; i <= lua_gettop(lua); i++) {
        if (lua_type(lua, i) == LUA_TNUMBER) {
            char text[64];
            const int length = std::snprintf(text, sizeof(text), "%.17g", lua_tonumber(lua, i));
            words.push_back(own[static_cast<std::size_t>(i - 1)].assign(text, static_cast<std::size_t>(length)));
        } else if (lua_type(lua, i) == LUA_TSTRING) {
            std::size_t length = 0;
            const char* text = lua_tolstring(lua, i, &length);
            words.emplace_back(text, length);
        } else {
            pushError(lua, "ERR Lua redis lib command arguments must be strings or integers");
            return false;
        }
    }
    if (words.empty()) {
        pushError(lua, "ERR Please specify at least one argument for this redis.call() call");
        return false;
    }
    const CommandRow* row = commandNamed(words[0]);
    execution.works(kCallNs);
    if (const std::string refusal = refusalOf(machine, row, words); !refusal.empty()) {
        pushError(lua, refusal);
        return false;
    }
    std::string reply;
    std::string* outer = execution.replyTo(&reply);
    execution.run(*row, words);
    execution.replyTo(outer);
    if (row->name == "getrange") {
        execution.works(kByteNs * static_cast<std::int64_t>(reply.size()));
    }
    luaL_checkstack(lua, LUA_MINSTACK, "a reply");
    pushElement(lua, reply, 0);
    return reply.front() != '-';
}

void countInstructions(lua_State* lua, lua_Debug*) {
    machineOf(lua).execution->works(kInstructions * kInstructionNs);
}

void pushWords(lua_State* lua, Words words, const char* name) {
    lua_createtable(lua, static_cast<int>(words.size()), 0);
    for (std::size_t i = 0; i < words.size(); i++) {
        lua_pushlstring(lua, words[i].data(), words[i].size());
        lua_rawseti(lua, -2, static_cast<int>(i + 1));
    }
    lua_setglobal(lua, name);
}

void addFunction(lua_State* lua, const char* name, lua_CFunction function) {
    lua_pushcfunction(lua, function);
    lua_setfield(lua, -2, name);
}

void openLibrary(lua_State* lua, const char* name, lua_CFunction open) {
    lua_pushcfunction(lua, open);
    lua_pushstring(lua, name);
    lua_call(lua, 1, 0);
}

std::string nameOf(const std::string& sha) {
    return "f_" + sha;
}

}  // namespace

LuaScripts::LuaScripts() : machine_(std::make_unique<Machine>(Machine{.lua = luaL_newstate()})) {
    lua_State* lua = machine_->lua;
    lua_pushlightuserdata(lua, machine_.get());
    lua_setfield(lua, LUA_REGISTRYINDEX, kMachine);
    openLibrary(lua, "", luaopen_base);
    openLibrary(lua, LUA_TABLIBNAME, luaopen_table);
    openLibrary(lua, LUA_STRLIBNAME, luaopen_string);
    openLibrary(lua, LUA_MATHLIBNAME, luaopen_math);
    lua_newtable(lua);
    addFunction(lua, "call", redisCall);
    addFunction(lua, "pcall", redisPcall);
    addFunction(lua, "sha1hex", sha1hex);
    lua_setglobal(lua, "redis");
    lua_newtable(lua);
    addFunction(lua, "pack", structPack);
    addFunction(lua, "unpack", structUnpack);
    lua_setglobal(lua, "struct");
    lua_pushcfunction(lua, protectedCall);
    lua_setglobal(lua, "pcall");
}

LuaScripts::~LuaScripts() {
    lua_close(machine_->lua);
}

std::string LuaScripts::compile(const std::string& sha, std::string_view source) {
    lua_State* lua = machine_->lua;
    lua_getfield(lua, LUA_REGISTRYINDEX, nameOf(sha).c_str());
    const bool isThere = lua_isfunction(lua, -1);
    lua_pop(lua, 1);
    if (isThere) {
        return {};
    }
    if (luaL_loadbuffer(lua, source.data(), source.size(), "@user_script") != 0) {
        const std::string error = lua_tostring(lua, -1);
        lua_pop(lua, 1);
        return error;
    }
    lua_setfield(lua, LUA_REGISTRYINDEX, nameOf(sha).c_str());
    return {};
}

void LuaScripts::run(Execution& execution, const std::string& sha, Words words) {
    lua_State* lua = machine_->lua;
    std::int64_t keys = 0;
    integerIn(words[2], keys);
    machine_->execution = &execution;
    machine_->hasWritten = false;
    pushWords(lua, words.subspan(3, static_cast<std::size_t>(keys)), "KEYS");
    pushWords(lua, words.subspan(3 + static_cast<std::size_t>(keys)), "ARGV");
    lua_sethook(lua, countInstructions, LUA_MASKCOUNT, kInstructions);
    lua_pushcfunction(lua, errorHandler);
    lua_getfield(lua, LUA_REGISTRYINDEX, nameOf(sha).c_str());
    if (lua_pcall(lua, 0, 1, -2) == 0) {
        tell(lua, execution.reply());
    } else {
        std::string error = "ERR";
        std::string place;
        if (lua_istable(lua, -1)) {
            fieldOf(lua, "err", error);
            fieldOf(lua, "place", place);
        }
        error.append(" script: ").append(sha);
        execution.error(place.empty() ? error : error.append(", on ").append(place).append("."));
        lua_pop(lua, 1);
    }
    lua_settop(lua, 0);
    machine_->execution = nullptr;
}

}  // namespace simulate
