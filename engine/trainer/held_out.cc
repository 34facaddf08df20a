#include "engine/trainer/held_out.h"

#include <fmt/format.h>

#include "base/rng.h"
#include "engine/data/objects.h"

namespace paddle::trainer {
namespace {

constexpr std::uint32_t kBatchSize = 512;

}  // namespace

data::DatasetOptions held_out_options(const config::JobConfig& job, const std::string& folder) {
  return {
      .data = job.data, .share = {}, .folder = folder, .seed = job.seed, .batch_size = kBatchSize};
}

Result<data::DatasetOptions> held_out_data(const config::JobConfig& job, const std::string& folder,
                                           const std::string& glob) {
  data::DatasetOptions options = held_out_options(job, folder);
  PADDLE_TRY(options.share, data::find_share(job.data, folder, glob, 0, 1));
  if (!options.share.files.empty()) return options;
  return Error{Errc::kData, fmt::format("no file matches '{}' in {}", glob, folder)};
}

Result<Score> score_held_out(data::BatchStream& stream, Model& model,
                             const std::function<Status(std::span<client::SparseRows>)>& pull,
                             const std::function<void()>& before_batch) {
  Score score;
  for (;;) {
    PADDLE_TRY(const std::optional<nn::Batch> batch, stream.next());
    if (!batch) return score;
    before_batch();
    // The same seed in every test makes tests comparable.
    const std::uint64_t seed = hash_combine(stable_hash("test"), score.samples);
    PADDLE_TRY_STATUS(model.prepare(*batch, seed));
    PADDLE_TRY_STATUS(pull(model.rows()));
    PADDLE_TRY(const Score one, model.test(*batch, seed));
    score.add(one);
  }
}

}  // namespace paddle::trainer
