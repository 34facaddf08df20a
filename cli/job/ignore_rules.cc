#include "cli/job/ignore_rules.h"

#include <algorithm>
#include <array>

namespace paddle::cli {
namespace {

// Git's classes: ASCII only; vertical tab and form feed are no blanks.
bool is_in_class(std::string_view name, int c) {
  const bool lower = c >= 'a' && c <= 'z';
  const bool upper = c >= 'A' && c <= 'Z';
  const bool digit = c >= '0' && c <= '9';
  const bool printable = c >= 0x20 && c < 0x7f;
  const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
  if (name == "alnum") return lower || upper || digit;
  if (name == "alpha") return lower || upper;
  if (name == "blank") return c == ' ' || c == '\t';
  if (name == "cntrl") return c < 0x20 || c == 0x7f;
  if (name == "digit") return digit;
  if (name == "graph") return printable && c != ' ';
  if (name == "lower") return lower;
  if (name == "print") return printable;
  if (name == "punct") return printable && c != ' ' && !lower && !upper && !digit;
  if (name == "space") return space;
  if (name == "upper") return upper;
  return digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');  // xdigit
}

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kSpecial = "*?[\\";  // characters that make a name a pattern
constexpr std::array<std::string_view, 12> kClasses{"alnum", "alpha", "blank", "cntrl",
                                                    "digit", "graph", "lower", "print",
                                                    "punct", "space", "upper", "xdigit"};

using Characters = std::bitset<256>;

void add_range(Characters& set, unsigned char first, unsigned char last) {
  for (int c = first; c <= last; ++c) set.set(static_cast<std::size_t>(c));
}

// Reads the text after "[:". kNone: there is no ":]", so the "[" is an ordinary character.
enum class Named { kRead, kNone, kWrong };
Named read_class(std::string_view text, std::size_t& at, Characters& set) {
  const std::size_t end = text.find(']', at);
  if (end == text.npos) return Named::kWrong;
  if (end == at || text[end - 1] != ':') return Named::kNone;
  const std::string_view name = text.substr(at, end - 1 - at);
  if (std::ranges::find(kClasses, name) == kClasses.end()) return Named::kWrong;
  for (int c = 0; c < 0x80; ++c)
    if (is_in_class(name, c)) set.set(static_cast<std::size_t>(c));
  at = end;
  return Named::kRead;
}

// Reads "[...]" after the first bracket, up to the closing one, in the order in which git reads it.
// Nothing for brackets that git cannot read; they match no text.
std::optional<Characters> read_brackets(std::string_view text, std::size_t& at) {
  Characters set;
  const bool negated = at < text.size() && (text[at] == '!' || text[at] == '^');
  if (negated) ++at;
  unsigned char before = 0;  // where a range may begin; 0: nowhere
  for (bool first = true; first || at >= text.size() || text[at] != ']'; first = false, ++at) {
    if (at >= text.size()) return std::nullopt;
    if (text[at] == '[' && at + 1 < text.size() && text[at + 1] == ':') {
      std::size_t behind = at + 2;
      const Named named = read_class(text, behind, set);
      if (named == Named::kWrong) return std::nullopt;
      if (named == Named::kRead) {
        at = behind;
        before = 0;
        continue;
      }
    }
    const bool is_range =
        text[at] == '-' && before != 0 && at + 1 < text.size() && text[at + 1] != ']';
    if (is_range) ++at;
    if (text[at] == '\\' && ++at == text.size()) return std::nullopt;
    const auto c = static_cast<unsigned char>(text[at]);
    if (is_range) {
      add_range(set, before, c);
    } else {
      set.set(c);
    }
    before = is_range ? 0 : c;
  }
  if (negated) set.flip();
  return set;
}

}  // namespace

std::optional<Glob> Glob::compile(std::string_view text, bool is_path) {
  Glob glob;
  // Git matches the plain text before the first special character separately, so a "**" right after
  // it counts as a whole name.
  const std::size_t plain = text.find_first_of(kSpecial);
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    Part part;
    if (c == '*') {
      const std::size_t end = std::min(text.find_first_not_of('*', at), text.size());
      const std::string_view rest = text.substr(end);
      const bool is_name = end - at > 1 && (at == plain || text[at - 1] == '/') &&
                           (rest.empty() || rest[0] == '/' || rest.starts_with("\\/"));
      const bool is_folders = is_path && is_name && rest.starts_with('/');
      part.kind = is_folders            ? Part::Kind::kFolders
                  : is_path && !is_name ? Part::Kind::kName
                                        : Part::Kind::kAnything;
      at = is_folders ? end : end - 1;
    } else if (c == '?') {
      part.characters.set();
    } else if (c == '[') {
      const auto set = read_brackets(text, ++at);
      if (!set) return std::nullopt;
      part.characters = *set;
    } else {
      if (c == '\\' && ++at == text.size()) return std::nullopt;
      part.characters.set(static_cast<unsigned char>(text[at]));
    }
    if (is_path && (c == '?' || c == '[')) part.characters.reset('/');
    glob.parts_.push_back(part);
  }
  return glob;
}

// For each part, records the positions in the text at which the parts before it can end. This takes
// as many steps as parts times characters, however many stars there are.
bool Glob::matches(std::string_view text) const {
  std::vector<bool> ends(text.size() + 1);
  ends[0] = true;
  for (const Part& part : parts_) {
    std::vector<bool> next(text.size() + 1);
    bool open = false;  // an earlier star continues
    bool any = false;
    for (std::size_t i = 0; i <= text.size(); ++i) {
      switch (part.kind) {
        case Part::Kind::kOne:
          next[i] =
              i > 0 && ends[i - 1] && part.characters[static_cast<unsigned char>(text[i - 1])];
          break;
        case Part::Kind::kName:
          if (i > 0 && text[i - 1] == '/') open = false;
          open = open || ends[i];
          next[i] = open;
          break;
        case Part::Kind::kAnything:
          open = open || ends[i];
          next[i] = open;
          break;
        case Part::Kind::kFolders:
          next[i] = ends[i] || (open && text[i - 1] == '/');
          open = open || ends[i];
          break;
      }
      any = any || next[i];
    }
    if (!any) return false;
    ends = std::move(next);
  }
  return ends[text.size()];
}

bool matches_glob(std::string_view pattern, std::string_view text) {
  const auto glob = Glob::compile(pattern, true);
  return glob && glob->matches(text);
}

namespace {

// Drops blanks at the end, unless a backslash precedes them. Tabs stay.
std::string_view without_trailing_blanks(std::string_view line) {
  std::size_t end = 0;  // end of what is kept
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == ' ') continue;
    if (line[i] == '\\' && ++i == line.size()) return line;
    end = i + 1;
  }
  return line.substr(0, end);
}

}  // namespace

void IgnoreRules::add(std::string_view folder, std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with('#')) continue;
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = without_trailing_blanks(line.substr(0, line.find('\0')));
    add_line(folder, line);
  }
}

void IgnoreRules::add_line(std::string_view folder, std::string_view line) {
  Rule rule;
  rule.folder = folder;
  if (line.starts_with('!')) {
    rule.keeps = true;
    line.remove_prefix(1);
  }
  if (line.ends_with('/')) {
    rule.folders_only = true;
    line.remove_suffix(1);
  }
  rule.whole_path = line.find('/') != std::string_view::npos;
  if (line.starts_with('/')) line.remove_prefix(1);
  if (line.empty()) return;
  rule.text = line;
  rule.is_plain = line.find_first_of(kSpecial) == std::string_view::npos;
  if (!rule.is_plain) {
    auto glob = Glob::compile(line, rule.whole_path);
    if (!glob) return;  // matches nothing
    rule.glob = *std::move(glob);
  }
  rules_.push_back(std::move(rule));
}

const IgnoreRules::Rule* IgnoreRules::last_match(std::string_view path, bool is_folder) const {
  const auto match = std::find_if(rules_.rbegin(), rules_.rend(), [&](const Rule& rule) {
    if (!path.starts_with(rule.folder) || (rule.folders_only && !is_folder)) return false;
    std::string_view inside = path.substr(rule.folder.size());
    if (!rule.whole_path) inside = inside.substr(inside.rfind('/') + 1);
    return rule.is_plain ? inside == rule.text : rule.glob.matches(inside);
  });
  return match == rules_.rend() ? nullptr : &*match;
}

bool IgnoreRules::ignores(std::string_view path, bool is_folder) const {
  const Rule* const rule = last_match(path, is_folder);
  return rule != nullptr && !rule->keeps;
}

bool IgnoreRules::keeps(std::string_view path, bool is_folder) const {
  const Rule* const rule = last_match(path, is_folder);
  return rule != nullptr && rule->keeps;
}

}  // namespace paddle::cli
