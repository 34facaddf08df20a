#include "engine/commands/train.h"

#include <filesystem>

#include <fmt/format.h>

#include "base/log.h"
#include "engine/commands/stop_request.h"
#include "engine/optim/optimizer.h"
#include "engine/snapshot/retention.h"
#include "engine/trainer/connection.h"
#include "engine/trainer/loop.h"

namespace paddle::commands {
namespace {

constexpr std::uint32_t kTestBatchSize = 512;

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string in_folder(const std::string& folder, const std::string& name) {
  return name.starts_with('/') ? name : folder + "/" + name;
}

Status check(const trainer::TrainOptions& options, const config::JobConfig& job) {
  if (options.trainer_id >= options.num_gradient_servers) {
    return Error{Errc::kUsage,
                 fmt::format("trainer_id {} of num_gradient_servers {}", options.trainer_id,
                             options.num_gradient_servers),
                 "trainers are numbered from 0"};
  }
  if (options.local && options.num_gradient_servers != 1) {
    return Error{Errc::kUsage, "--local has one trainer, its threads are --trainer_count", ""};
  }
  if (!job.has_network()) {
    return Error{Errc::kUsage, fmt::format("{} has no [[layer]]", options.config),
                 "its [trainer] command trains, not paddle train"};
  }
  if (options.pservers.empty()) return Error{Errc::kUsage, "--pservers is empty", ""};
  if (options.start_pass > 0 && options.save_dir.empty() && options.init_model_path.empty()) {
    return Error{Errc::kUsage, "--start_pass needs --save_dir", "it continues from a pass there"};
  }
  if (options.resume &&
      (options.save_dir.empty() || options.start_pass > 0 || !options.init_model_path.empty())) {
    return Error{Errc::kUsage, "--resume needs --save_dir, and no other place to start from",
                 "leave --start_pass and --init_model_path out"};
  }
  if (options.start_pass >= job.train.passes) {
    return Error{Errc::kUsage,
                 fmt::format("--start_pass {} of {} passes: nothing to do", options.start_pass,
                             job.train.passes),
                 ""};
  }
  return {};
}

Status make_save_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return {};
  return Error{Errc::kResource, fmt::format("make {}: {}", folder, error.message()), ""};
}

Result<trainer::LoopOptions> loop_options(const trainer::TrainOptions& options,
                                          const config::JobConfig& job) {
  const std::string folder = folder_of(options.config);
  trainer::LoopOptions loop;
  loop.train = job.train;
  loop.optimizer = job.optimizer;
  loop.tests_shards = optim::has_average(job.optimizer) || job.is_local();
  loop.seed = job.seed;
  loop.trainer_id = options.trainer_id;
  loop.start_pass = options.start_pass;
  loop.save_dir = options.save_dir;
  loop.train_data = {.data = job.data,
                     .share = {},
                     .folder = folder,
                     .trainer_id = options.trainer_id,
                     .num_trainers = options.num_gradient_servers,
                     .seed = job.seed,
                     .shuffle_records = job.train.shuffle_records,
                     .batch_size = job.train.batch_size};
  PADDLE_TRY(loop.train_data.share,
             config::data_share(folder, job.data.train, options.trainer_id,
                                options.num_gradient_servers, job.data.global_shuffle));
  if (loop.train_data.share.files.empty()) {
    if (options.num_gradient_servers == 1) {
      return Error{Errc::kData,
                   fmt::format("no file matches [data] train = '{}' in {}", job.data.train, folder),
                   ""};
    }
    log_warning("no file of '{}' is for trainer {}: it only takes part", job.data.train,
                options.trainer_id);
  }
  if (job.data.test.empty() || options.trainer_id != 0) return loop;
  loop.test_data = {.data = job.data,
                    .share = {},
                    .folder = folder,
                    .trainer_id = 0,
                    .num_trainers = 1,
                    .seed = job.seed,
                    .shuffle_records = 0,
                    .batch_size = kTestBatchSize};
  PADDLE_TRY(loop.test_data.share, config::data_share(folder, job.data.test, 0, 1));
  if (loop.test_data.share.files.empty()) {
    return Error{Errc::kData,
                 fmt::format("no file matches [data] test = '{}' in {}", job.data.test, folder),
                 ""};
  }
  return loop;
}

// Trainer 0 brings the parameters of a snapshot, if one was asked for; then all may start.
Status start(const trainer::TrainOptions& options, client::ParameterClient& client) {
  std::string snapshot = options.init_model_path;
  if (snapshot.empty() && options.start_pass > 0) {
    snapshot = trainer::pass_directory(options.save_dir, options.start_pass - 1);
  }
  if (options.trainer_id == 0 && options.resume) {
    PADDLE_TRY(snapshot, snapshot::newest_snapshot(options.save_dir));
    log_info("{} to go on from in {}", snapshot.empty() ? "no snapshot" : snapshot,
             options.save_dir);
  }
  if (options.trainer_id == 0 && !snapshot.empty()) {
    log_info("Loading parameters from {}", snapshot);
    PADDLE_TRY_STATUS(options.resume ? client.resume(snapshot) : client.load_snapshot(snapshot));
  }
  return client.ready();
}

// Where the servers stand is where every trainer of a resumed job goes on.
void take_place(const client::ParameterClient& client, trainer::LoopOptions& loop) {
  const client::JobProgress progress = client.progress();
  loop.start_pass = static_cast<std::uint32_t>(progress.passes);
  loop.batches_done = progress.batches;
  if (progress.passes >= loop.train.passes) {
    log_info("all of the {} passes are done", loop.train.passes);
  } else if (progress.passes + progress.batches > 0) {
    log_info("going on in pass {} after batch {}", progress.passes, progress.batches);
  }
}

}  // namespace

Status run_train(const trainer::TrainOptions& options) {
  PADDLE_TRY(const config::JobConfig job, config::read_job(options.config, options.overrides));
  PADDLE_TRY_STATUS(check(options, job));
  data::Dictionary dictionary;
  if (!job.data.dictionary.empty()) {
    PADDLE_TRY(dictionary,
               data::Dictionary::read(in_folder(folder_of(options.config), job.data.dictionary)));
  }
  PADDLE_TRY(trainer::Model model, trainer::Model::build(job));
  PADDLE_TRY(trainer::LoopOptions loop, loop_options(options, job));
  if (!options.save_dir.empty()) PADDLE_TRY_STATUS(make_save_folder(options.save_dir));
  trainer::MetricsFile metrics;
  if (!options.metrics.empty()) {
    PADDLE_TRY(metrics, trainer::MetricsFile::open(options.metrics));
  }
  PADDLE_TRY(const std::unique_ptr<client::ParameterClient> client,
             trainer::join_shards(job, trainer::parameter_set(job, model.parameters(), options),
                                  options, model.team()));
  PADDLE_TRY_STATUS(start(options, *client));
  if (options.resume) take_place(*client, loop);
  take_stop_signals();
  loop.stop_requested = stop_requested;
  log_info("trainer {} of {}: {} threads, batches of {}", options.trainer_id,
           options.num_gradient_servers, job.train.trainer_count, job.train.batch_size);
  return trainer::Loop(std::move(loop), dictionary, model, *client, metrics).run();
}

}  // namespace paddle::commands
