#include "engine/data/format.h"

#include <algorithm>
#include <array>

namespace paddle::data {
namespace {

struct Parser {
  std::string_view format;
  std::unique_ptr<Format> (*make)(const config::DataConfig& data, const Dictionary& dictionary);
};

constexpr std::array<Parser, 6> kParsers{{{"ngram", make_ngram},
                                          {"bow", make_bow},
                                          {"multislot", make_multislot},
                                          {"libsvm", make_libsvm},
                                          {"csv", make_csv},
                                          {"criteo", make_criteo}}};

}  // namespace

std::unique_ptr<Format> make_format(const config::DataConfig& data, const Dictionary& dictionary) {
  const auto* const parser = std::ranges::find(kParsers, data.format, &Parser::format);
  PADDLE_CHECK(parser != kParsers.end());
  return parser->make(data, dictionary);
}

}  // namespace paddle::data
