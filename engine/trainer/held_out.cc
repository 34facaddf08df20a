#include "engine/trainer/held_out.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/rng.h"
#include "engine/data/objects.h"
#include "engine/data/split.h"
#include "engine/trainer/early_stop.h"

namespace paddle::trainer {
namespace {

constexpr std::uint32_t kBatchSize = 512;

}  // namespace

std::string files_text(std::vector<std::string> files) {
  constexpr std::size_t kShownMax = 3;
  const std::size_t count = files.size();
  if (count > kShownMax) files.resize(kShownMax);
  if (count > kShownMax) files.push_back(fmt::format("{} more", count - kShownMax));
  if (count == 0) files.emplace_back("no file");
  return fmt::format("{}", fmt::join(files, ", "));
}

data::DatasetOptions held_out_options(const config::JobConfig& job, const std::string& folder) {
  data::DatasetOptions options{
      .data = job.data, .share = {}, .folder = folder, .seed = job.seed, .batch_size = kBatchSize};
  options.data.test_fraction = 0;
  return options;
}

Result<data::DatasetOptions> held_out_data(const config::JobConfig& job, const std::string& folder,
                                           const std::string& glob) {
  data::DatasetOptions options = held_out_options(job, folder);
  if (glob.empty()) {
    options.data.test_fraction = job.data.test_fraction;
    options.held_out = job.data.test_fraction > 0;
  }
  const std::string& own = options.held_out ? job.data.train : job.data.test;
  const std::string& pattern = glob.empty() ? own : glob;
  PADDLE_TRY(options.share, data::find_share(job.data, folder, pattern, 0, 1));
  if (!options.share.files.empty()) return options;
  return Error{Errc::kData, fmt::format("no file matches '{}' in {}", pattern, folder)};
}

Error empty_part(const data::DatasetOptions& options) {
  const config::DataConfig& data = options.data;
  if (!data.split_by.empty() && !data::has_split_key(options)) {
    return {Errc::kData,
            fmt::format("no record of {} has the key '{}', which [data] split_by names",
                        files_text(options.share.files), data.split_by),
            "name a key that records have, or leave split_by out"};
  }
  std::string split = fmt::format("[data] test_fraction = {}", data.test_fraction);
  std::string hint = options.held_out
                         ? "raise it, or hold out files of their own: test = \"data/test.txt\""
                         : "lower it: 0.1 holds out a tenth of the records";
  if (!data.split_by.empty()) {
    split += fmt::format(" with split_by = '{}'", data.split_by);
    hint = fmt::format(
        "records with the same text in '{}' stay together, and it has too few different texts: "
        "name another one, leave split_by out, or hold out files of their own: test = "
        "\"data/test.txt\"",
        data.split_by);
  }
  return {Errc::kData,
          fmt::format("{} holds out {} record of {}", split, options.held_out ? "no" : "every",
                      files_text(options.share.files)),
          std::move(hint)};
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

bool HeldOutTest::is_made_here() const {
  return options_.trainer_id == 0 && !options_.test_data.share.files.empty();
}

Status HeldOutTest::check_data() {
  if (!is_made_here() || !options_.test_data.data.pipe_command.empty()) return {};
  const auto stream = data::open_pass(options_.test_data, dictionary_, 0);
  PADDLE_TRY(const std::optional<nn::Batch> batch, stream->next());
  if (!batch) return no_record();
  if (!options_.test_data.held_out) return {};
  data::DatasetOptions rest = options_.test_data;
  rest.held_out = false;
  const auto training = data::open_pass(rest, dictionary_, 0);
  PADDLE_TRY(const std::optional<nn::Batch> trained, training->next());
  if (!trained) return empty_part(rest);
  return {};
}

Status HeldOutTest::run(const PassProgress& at, bool is_within_pass) {
  if (!is_made_here()) return {};
  const TimePoint begun = std::chrono::steady_clock::now();
  PADDLE_TRY_STATUS(report_.begin_long_work(at, wire::ACTIVITY_TESTING));
  if (options_.tests_shards) PADDLE_TRY_STATUS(client_.pull_averages(model_.dense(), {}));
  const auto stream = data::open_pass(options_.test_data, dictionary_, 0);
  PADDLE_TRY(const Score score, score_held_out(
                                    *stream, model_,
                                    [this](std::span<client::SparseRows> rows) {
                                      return client_.pull_averages({}, rows);
                                    },
                                    [&] { report_.publish(at, wire::ACTIVITY_TESTING); }));
  if (score.samples == 0) return no_record();
  if (options_.tests_shards) PADDLE_TRY_STATUS(client_.pull_dense(model_.dense()));
  const Reading reading = model_.read(score);
  figures_ = figures_of(reading);
  report_.write_test(at, is_within_pass, reading, std::chrono::steady_clock::now() - begun);
  return {};
}

std::optional<std::vector<nn::Value>> HeldOutTest::take_figures() {
  return std::exchange(figures_, std::nullopt);
}

Error HeldOutTest::no_record() const {
  if (options_.test_data.held_out) return empty_part(options_.test_data);
  return {Errc::kData,
          fmt::format("the held-out data has no record; trainer {} read {}", options_.trainer_id,
                      files_text(options_.test_data.share.files)),
          "check whether the files of [data] test are empty, or all of their "
          "records were left out; "
          "without [data] test nothing is held out"};
}

}  // namespace paddle::trainer
