#include "engine/data/format.h"

namespace paddle::data {

std::unique_ptr<Format> make_format(const config::DataConfig& data, const Dictionary& dictionary) {
  if (data.format == "ngram") return make_ngram(data, dictionary);
  if (data.format == "bow") return make_bow(dictionary);
  if (data.format == "multislot") return make_multislot(data);
  if (data.format == "libsvm") return make_libsvm(data);
  if (data.format == "csv") return make_csv(data);
  PADDLE_CHECK(data.format == "criteo");
  return make_criteo(data);
}

}  // namespace paddle::data
