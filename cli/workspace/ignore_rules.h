// .paddleignore: the rules of gitignore(5), each file's for its own folder and what is below.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paddle::cli {

class IgnoreRules {
 public:
  // The text of one file; `folder` is relative to the top, with a slash at its end, or empty. Those
  // of folders further down come later and win.
  void add(std::string_view folder, std::string_view text);

  // What is below an ignored folder is not asked about: no rule brings it back.
  bool ignores(std::string_view path, bool is_folder) const;

 private:
  struct Rule {
    std::string folder;
    std::string pattern;
    bool keeps = false;  // "!pattern"
    bool folders_only = false;
    bool whole_path = false;  // a slash within: against the path, not the last name
  };
  std::vector<Rule> rules_;
};

// '*', '?' and '[...]' match within a name; '**' as a whole name matches any number of names.
bool matches_glob(std::string_view pattern, std::string_view text);

}  // namespace paddle::cli
