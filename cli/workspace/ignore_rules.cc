#include "cli/workspace/ignore_rules.h"

#include <algorithm>

namespace paddle::cli {
namespace {

// Consumes "[...]" from the pattern and sets `matched`; false for a bracket that is not closed and
// stands for itself.
bool match_class(std::string_view& pattern, char c, bool& matched) {
  const bool negated = pattern.size() > 1 && (pattern[1] == '!' || pattern[1] == '^');
  std::size_t at = negated ? 2 : 1;
  bool found = false;
  for (const std::size_t first = at; at < pattern.size(); ++at) {
    if (pattern[at] == ']' && at > first) {
      pattern.remove_prefix(at + 1);
      matched = found != negated;
      return true;
    }
    if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
    const char low = pattern[at];
    char high = low;
    if (at + 2 < pattern.size() && pattern[at + 1] == '-' && pattern[at + 2] != ']') {
      high = pattern[at + 2];
      at += 2;
    }
    found |= low <= c && c <= high;
  }
  return false;
}

// Matches one character of the text, and advances the pattern.
bool match_one(std::string_view& pattern, char c) {
  if (pattern.front() == '[') {
    bool matched = false;
    if (match_class(pattern, c, matched)) return matched;
  }
  if (pattern.front() == '?') {
    pattern.remove_prefix(1);
    return true;
  }
  if (pattern.front() == '\\' && pattern.size() > 1) pattern.remove_prefix(1);
  const bool same = pattern.front() == c;
  pattern.remove_prefix(1);
  return same;
}

// Matches one name, without slashes. Only the last star is tried again with more characters, so
// that many stars take quadratic time at most.
bool match_name(std::string_view pattern, std::string_view name) {
  std::string_view star_pattern;
  std::string_view star_name;
  bool star = false;
  while (!name.empty()) {
    if (!pattern.empty() && pattern.front() == '*') {
      pattern.remove_prefix(1);
      star_pattern = pattern;
      star_name = name;
      star = true;
      continue;
    }
    if (!pattern.empty()) {
      std::string_view rest = pattern;
      if (match_one(rest, name.front())) {
        pattern = rest;
        name.remove_prefix(1);
        continue;
      }
    }
    if (!star) return false;
    star_name.remove_prefix(1);
    name = star_name;
    pattern = star_pattern;
  }
  return pattern.find_first_not_of('*') == std::string_view::npos;
}

std::vector<std::string_view> names_of(std::string_view path) {
  std::vector<std::string_view> names;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    names.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

}  // namespace

bool matches_glob(std::string_view pattern, std::string_view text) {
  const auto patterns = names_of(pattern);
  const auto names = names_of(text);
  // reach[j]: the patterns so far match the first j names.
  std::vector<bool> reach(names.size() + 1);
  reach[0] = true;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    std::vector<bool> next(names.size() + 1);
    const bool last = i + 1 == patterns.size();
    if (patterns[i] == "**") {
      bool any = false;
      for (std::size_t j = 0; j <= names.size(); ++j) {
        // A "**" at the end matches everything inside, which is at least one name.
        if (j > 0 && last) next[j] = any;
        any |= reach[j];
        if (!last) next[j] = any;
      }
    } else {
      for (std::size_t j = 0; j < names.size(); ++j)
        next[j + 1] = reach[j] && match_name(patterns[i], names[j]);
    }
    reach = std::move(next);
  }
  return reach[names.size()];
}

void IgnoreRules::add(std::string_view folder, std::string_view text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    while (line.ends_with(' ') && !line.ends_with("\\ ")) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    Rule rule;
    rule.folder = folder;
    if (line.front() == '!') {
      rule.keeps = true;
      line.remove_prefix(1);
    }
    if (line.ends_with('/')) {
      rule.folders_only = true;
      line.remove_suffix(1);
    }
    rule.whole_path = line.find('/') != std::string_view::npos;
    if (line.starts_with('/')) line.remove_prefix(1);
    if (line.empty()) continue;
    rule.pattern = line;
    rules_.push_back(std::move(rule));
  }
}

const IgnoreRules::Rule* IgnoreRules::last_match(std::string_view path, bool is_folder) const {
  const auto match = std::find_if(rules_.rbegin(), rules_.rend(), [&](const Rule& rule) {
    if (!path.starts_with(rule.folder) || (rule.folders_only && !is_folder)) return false;
    std::string_view inside = path.substr(rule.folder.size());
    if (!rule.whole_path) inside = inside.substr(inside.rfind('/') + 1);
    return matches_glob(rule.pattern, inside);
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
