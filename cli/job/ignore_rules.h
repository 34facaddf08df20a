// The rules of .paddleignore files: those of gitignore(5), as git reads them.
#pragma once

#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paddle::cli {

// A pattern as in git: '?', '*', "**" and "[...]" with ranges and classes such as [:digit:].
class Glob {
 public:
  // is_path: '*' and '?' stop at a slash, and a "**" that is a whole name matches any number of
  // folders. Nothing for a pattern that matches no text, such as a bracket without its end.
  static std::optional<Glob> compile(std::string_view text, bool is_path);

  bool matches(std::string_view text) const;

 private:
  struct Part {
    enum class Kind {
      kOne,       // one of `characters`
      kName,      // any number of characters but a slash
      kAnything,  // any number of characters
      kFolders    // nothing, or anything that ends with a slash
    };
    Kind kind = Kind::kOne;
    std::bitset<256> characters;
  };
  std::vector<Part> parts_;
};

class IgnoreRules {
 public:
  // Adds the rules of one file, for its `folder` (relative to the top, with a slash at its end, or
  // empty) and the folders below. Later rules take precedence, so a folder's rules must be added
  // before those of the folders below it.
  void add(std::string_view folder, std::string_view text);

  // REQUIRES: the path is not below an ignored folder; no rule includes such paths again.
  bool ignores(std::string_view path, bool is_folder) const;
  // Whether a rule that begins with '!' includes the path.
  bool keeps(std::string_view path, bool is_folder) const;

 private:
  struct Rule {
    std::string folder;
    std::string text;
    Glob glob;
    bool is_plain = false;  // `text` is the name itself
    bool keeps = false;     // "!pattern"
    bool folders_only = false;
    bool whole_path = false;  // has a slash inside: compared with the path, not with the last name
  };
  void add_line(std::string_view folder, std::string_view line);
  const Rule* last_match(std::string_view path, bool is_folder) const;

  std::vector<Rule> rules_;
};

// Whether a pattern for paths matches all of the text.
bool matches_glob(std::string_view pattern, std::string_view text);

}  // namespace paddle::cli
