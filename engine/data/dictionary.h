// Texts that stand for ids in the data: the words of a dictionary, and names of classes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace paddle::data {

// Dictionary from words to ids.
class Dictionary {
 public:
  // Each line has a word, whose id is the line number from 0; the last line is <unk>. kData: the
  // file is wrong; the message names the file and line.
  static Result<Dictionary> read(const std::string& path);

  // An unknown word has the id of <unk>.
  std::uint64_t id(std::string_view word) const {
    const auto found = ids_.find(word);
    return found == ids_.end() ? ids_.size() - 1 : found->second;
  }
  std::uint64_t size() const { return ids_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, std::uint64_t, Hash, std::equal_to<>> ids_;
};

// Names of classes in the data: "setosa", or numbers that do not count from 0.
class ClassNames {
 public:
  ClassNames() = default;
  // Class i has the name names[i].
  explicit ClassNames(const std::vector<std::string>& names);

  bool empty() const { return classes_.empty(); }
  // The class with this name. A number is found however it is written: "1.0" and "+1" are "1".
  std::optional<std::uint64_t> find(std::string_view name) const;
  std::optional<std::uint64_t> find(double number) const;
  // As find(). kData: no class has this name: "<what> 'setsa' is not one of the labels setosa,
  // ...", with the hint "did you mean 'setosa'?" unless there are over 1000 classes.
  Status parse(std::string_view name, std::string_view what, std::uint64_t& number) const;

 private:
  std::map<std::string, std::uint64_t, std::less<>> classes_;
  std::map<double, std::uint64_t> numbers_;  // for names that are numbers
  std::vector<std::string> first_names_;     // those that messages show
};

}  // namespace paddle::data
