#include "nginx_conf.hpp"

#include <glob.h>

#include <array>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "failure.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr int kDeepestInclude = 32;  // nginx itself continues until it cannot open more files

bool isBlank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/// The character that a backslash before `c` makes of it in a word; '\0': the backslash stays.
char unescaped(char c) {
    switch (c) {
        case 't':
            return '\t';
        case 'r':
            return '\r';
        case 'n':
            return '\n';
        case '"':
        case '\'':
        case '\\':
            return c;
        default:
            return '\0';
    }
}

/// nullopt: it cannot be read, or it is a directory.
std::optional<std::string> contentOf(const std::string& path) {
    std::ifstream file(path);
    std::array<char, 65536> block;
    std::string content;
    do {
        file.read(block.data(), block.size());
        content.append(block.data(), static_cast<std::size_t>(file.gcount()));
    } while (file);
    return file.bad() || !file.eof() ? std::nullopt : std::optional(std::move(content));
}

class File {
  public:
    File(std::string path, std::string text) : path_(std::move(path)), text_(std::move(text)) {}

    [[noreturn]] void refuse(const std::string& why) const { throw UsageError(place().text() + ": " + why); }

    Place place() const { return {path_, line_}; }

    /// The words up to the next `;`, `{` or `}`, which is stored in `end`; '\0': the end of the file.
    Words words(char& end) {
        Words words;
        while (skipBlanks()) {
            const char c = text_[at_];
            if (c == ';' || c == '{' || c == '}') {
                at_++;
                if (words.empty() == (c != '}')) {
                    refuseSign(c);
                }
                end = c;
                return words;
            }
            words.push_back(c == '"' || c == '\'' ? quotedWord() : word());
        }
        if (!words.empty()) {
            refuse("unexpected end of file, expected \";\" or \"}\"");
        }
        end = '\0';
        return words;
    }

    /// Skips the rest of a block of Lua after its `{`, including its `}`. The Lua module reads it by Lua's rules.
    void skipLua() {
        for (int depth = 1; depth > 0;) {
            const std::string_view rest = std::string_view(text_).substr(at_);
            if (rest.empty()) {
                refuse("unexpected end of file in a block of Lua");
            }
            if (rest.starts_with("--")) {
                at_ += 2;
                if (!skipLongBracket()) {
                    skipBehind("\n");
                }
            } else if (rest[0] == '"' || rest[0] == '\'') {
                next();
                while (at_ < text_.size() && text_[at_] != rest[0]) {
                    next(text_[at_] == '\\' ? 2 : 1);
                }
                next();
            } else if (!skipLongBracket()) {
                depth += rest[0] == '{' ? 1 : rest[0] == '}' ? -1 : 0;
                next();
            }
        }
    }

  private:
    [[noreturn]] void refuseSign(char c) const { refuse("unexpected \"" + printable({&c, 1}) + "\""); }

    void next(std::size_t count = 1) {
        for (; count > 0 && at_ < text_.size(); count--) {
            line_ += text_[at_++] == '\n' ? 1 : 0;
        }
    }

    void skipBehind(std::string_view end) {
        const std::size_t found = text_.find(end, at_);
        next((found == std::string::npos ? text_.size() : found + end.size()) - at_);
    }

    /// Skips Lua's `[[ … ]]` or `[=[ … ]=]`; false if there is none.
    bool skipLongBracket() {
        const std::size_t second =
            at_ < text_.size() && text_[at_] == '[' ? text_.find_first_not_of('=', at_ + 1) : std::string::npos;
        if (second == std::string::npos || text_[second] != '[') {
            return false;
        }
        skipBehind("]" + std::string(second - at_ - 1, '=') + "]");
        return true;
    }

    /// Skips blanks and comments; false at the end of the file.
    bool skipBlanks() {
        while (at_ < text_.size() && (isBlank(text_[at_]) || text_[at_] == '#')) {
            if (text_[at_] == '#') {
                skipBehind("\n");
            } else {
                next();
            }
        }
        return at_ < text_.size();
    }

    /// Appends one character, which may be escaped by a backslash.
    void take(std::string& word) {
        if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
            const char c = unescaped(text_[at_ + 1]);
            word.append(c == '\0' ? text_.substr(at_, 2) : std::string(1, c));
            next(2);
        } else {
            word.push_back(text_[at_]);
            next();
        }
    }

    std::string quotedWord() {
        const char quote = text_[at_];
        std::string word;
        for (next(); at_ < text_.size() && text_[at_] != quote;) {
            take(word);
        }
        if (at_ == text_.size()) {
            refuse("unexpected end of file in a quoted word");
        }
        next();
        const char behind = at_ < text_.size() ? text_[at_] : ' ';
        if (!isBlank(behind) && std::string_view(";{)").find(behind) == std::string_view::npos) {
            refuseSign(behind);
        }
        return word;
    }

    /// An unquoted word; `${` does not begin a block.
    std::string word() {
        std::string word;
        bool isVariable = false;
        while (at_ < text_.size() && !isBlank(text_[at_]) && text_[at_] != ';' && (text_[at_] != '{' || isVariable)) {
            isVariable = text_[at_] == '$';
            take(word);
        }
        return word;
    }

    std::string path_;
    std::string text_;
    std::size_t at_ = 0;
    int line_ = 1;
};

struct Reader {
    const std::string& main;
    const std::function<void(const Directive&)>& each;
    std::vector<Directive> blocks = {};  // open blocks, also across an include

    void read(File file, int depth) {
        const std::size_t outside = blocks.size();
        while (true) {
            char end = '\0';
            const Words words = file.words(end);
            switch (end) {
                case '\0':
                    if (blocks.size() > outside) {
                        file.refuse("unexpected end of file, expected \"}\"");
                    }
                    return;
                case '}':
                    if (blocks.size() == outside) {
                        file.refuse("unexpected \"}\"");
                    }
                    blocks.pop_back();
                    break;
                case '{':
                    if (words[0].ends_with("_by_lua_block")) {
                        file.skipLua();
                    } else {
                        tell(words, file);
                        blocks.push_back({words, file.place()});
                    }
                    break;
                default:
                    if (words[0] == "include" && words.size() == 2) {
                        include(file, words[1], depth);
                    } else {
                        tell(words, file);
                    }
            }
        }
    }

    void tell(const Words& words, const File& file) const {
        each({words, file.place(), blocks.empty() ? nullptr : &blocks.back()});
    }

    void include(const File& from, const std::string& name, int depth) {
        if (depth == kDeepestInclude) {
            from.refuse("includes are nested too deeply");
        }
        const std::string pattern = besideMain(main, name);
        std::vector<std::string> paths{pattern};
        if (pattern.find_first_of("*?[") != std::string::npos) {
            glob_t found{};
            ::glob(pattern.c_str(), 0, nullptr, &found);
            paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
            ::globfree(&found);
        }
        for (const std::string& path : paths) {
            std::optional<std::string> content = contentOf(path);
            if (!content) {
                from.refuse("\"" + printable(path) + "\" cannot be read");
            }
            read(File(path, std::move(*content)), depth + 1);
        }
    }
};

}  // namespace

std::string besideMain(const std::string& main, const std::string& path) {
    const std::size_t slash = main.rfind('/');
    return path.starts_with('/') || slash == std::string::npos ? path : main.substr(0, slash + 1) + path;
}

bool readNginxConf(const std::string& path, const std::function<void(const Directive&)>& each) {
    std::optional<std::string> content = contentOf(path);
    if (!content) {
        return false;
    }
    Reader{path, each}.read(File(path, std::move(*content)), 0);
    return true;
}

}  // namespace sliding_log::tool
