#include "engine/export/words.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/text_file.h"

namespace paddle::exporting {
namespace {

constexpr std::size_t kDictionaryBytesMax = 1U << 30U;

std::vector<std::string> words_in(std::string bytes) {
  const std::string text = text_of_lines(std::move(bytes));
  std::vector<std::string> words;
  for (std::string_view left = text; !left.empty();) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    std::string& word = words.emplace_back(left.substr(0, end));
    if (word.ends_with('\r')) word.pop_back();
    std::ranges::replace_if(
        word, [](char c) { return c == ' ' || c == '\t'; }, '_');
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return words;
}

}  // namespace

Result<std::vector<std::string>> words_of(const snapshot::SnapshotReader& snapshot,
                                          const wire::ParameterSpec& parameter,
                                          const std::string& given) {
  const bool has_rows = parameter.sparse() || parameter.dims_size() == 2;
  PADDLE_TRY(const auto hash, snapshot.read_model_file("model/dictionary.txt.sha256"));
  if (!given.empty()) {
    PADDLE_TRY(std::string text, read_file(given, kDictionaryBytesMax));
    if (!hash || hash->starts_with(to_hex(sha256_of(as_bytes(text)))))
      return words_in(std::move(text));
    return Error{Errc::kData,
                 fmt::format("{} is not the dictionary that {} was trained with", given,
                             snapshot.directory()),
                 fmt::format("the SHA-256 of that is {}", hash->substr(0, hash->find(' ')))};
  }
  if (hash && has_rows) {
    return Error{Errc::kUsage,
                 fmt::format("{} has only the hash of its dictionary, which was too large",
                             snapshot.directory()),
                 "name the file: --dictionary=PATH; --format=text has ids and no words"};
  }
  PADDLE_TRY(auto own, snapshot.read_model_file("model/dictionary.txt"));
  if (!own) return std::vector<std::string>();
  std::vector<std::string> words = words_in(*std::move(own));
  const bool is_of_words = parameter.sparse() || (has_rows && parameter.dims(0) == words.size());
  return is_of_words ? std::move(words) : std::vector<std::string>();
}

}  // namespace paddle::exporting
