// Dictionary from words to ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"

namespace paddle::data {

class Dictionary {
 public:
  // Each line has a word, whose id is the line number from 0; the last line is <unk>. kData names
  // the file and line.
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

}  // namespace paddle::data
