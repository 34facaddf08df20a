// `paddle statistics`: makes the file of constants by which columns are prepared.
#include "engine/data/statistics.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/text.h"
#include "engine/commands/command.h"
#include "engine/config/job_config.h"
#include "engine/math/allocator.h"
#include "engine/pserver/options.h"

namespace paddle::commands {
namespace {

constexpr unsigned kFileMode = 0644;

struct StatisticsOptions {
  std::string config = "job.toml";
  std::vector<std::string> overrides;
  std::uint32_t trainer_id = 0;
  std::uint32_t num_gradient_servers = 1;
  std::string output;
  bool merges = false;
  std::vector<std::string> parts;  // to merge
};

Status write_result(const data::Statistics& statistics, const std::string& output) {
  PADDLE_TRY(const config::DataStatistics result, statistics.result());
  PADDLE_TRY_STATUS(replace_file(output, as_bytes(config::statistics_text(result)), kFileMode));
  std::cout << fmt::format("{}: statistics of {} records\n", output, result.records);
  return {};
}

// Reads the training data of this trainer.
Status observe(const StatisticsOptions& options) {
  if (options.trainer_id >= options.num_gradient_servers) {
    return Error{Errc::kUsage,
                 fmt::format("trainer_id {} is not below num_gradient_servers {}",
                             options.trainer_id, options.num_gradient_servers),
                 "trainers are numbered from 0"};
  }
  // The file that the job names may be the one to make.
  std::vector<std::string> overrides = options.overrides;
  overrides.emplace_back("data.statistics=");
  PADDLE_TRY(const config::JobConfig job, config::read_job(options.config, overrides));
  if (!config::lacks_statistics(job.data)) {
    return Error{Errc::kUsage, fmt::format("no slot of {} needs statistics", options.config),
                 "slots with normalize = \"standard\" or \"min_max\", missing = \"mean\", bucket = "
                 "N or labels = \"learned\" do"};
  }
  PADDLE_TRY(data::Statistics statistics,
             data::observe_training(job, config::folder_of(options.config), options.trainer_id,
                                    options.num_gradient_servers));
  if (options.num_gradient_servers == 1) return write_result(statistics, options.output);
  const Bytes part = data::encode({options.trainer_id, options.num_gradient_servers,
                                   data::held_out_text(job), std::move(statistics)});
  PADDLE_TRY_STATUS(replace_file(options.output, part, kFileMode));
  std::cout << fmt::format("{}: part {} of {}\n", options.output, options.trainer_id,
                           options.num_gradient_servers);
  return {};
}

Result<data::StatisticsPart> read_part(const std::string& path) {
  PADDLE_TRY(const std::string bytes, read_file(path, data::kPartBytesMax));
  return data::decode_part(as_bytes(bytes)).with(path);
}

// kUsage: a trainer's part is missing or there twice.
Status merge(const StatisticsOptions& options) {
  std::optional<data::StatisticsPart> sum;
  std::vector<std::string> files;  // by trainer; "": not read yet
  for (const std::string& path : options.parts) {
    PADDLE_TRY(data::StatisticsPart part, read_part(path));
    if (!sum) files.resize(part.trainers);
    if (sum && part.trainers != sum->trainers) {
      return Error{Errc::kUsage,
                   fmt::format("{} is a part of {}, but {} of {}", path, part.trainers,
                               options.parts.front(), sum->trainers),
                   "merge the parts of one job"};
    }
    if (sum && part.held_out != sum->held_out) {
      return Error{
          Errc::kUsage,
          fmt::format("{} was made with {}, but {} with {}", path, escape_control(part.held_out),
                      options.parts.front(), escape_control(sum->held_out)),
          "make all parts with the same job.toml and --set"};
    }
    std::string& file = files[part.trainer];
    if (!file.empty()) {
      return Error{Errc::kUsage,
                   fmt::format("{} and {} are both of trainer {}", file, path, part.trainer),
                   "name each part once"};
    }
    file = path;
    if (sum) {
      PADDLE_TRY_STATUS(sum->statistics.merge(part.statistics).with(path));
    } else {
      sum = std::move(part);
    }
  }
  const auto missing = std::ranges::find(files, "");
  if (!sum || missing != files.end()) {
    return Error{Errc::kUsage,
                 files.empty() ? "--merge names no part"
                               : fmt::format("the part of trainer {} of {} is missing",
                                             missing - files.begin(), files.size()),
                 "name the parts of all trainers: --merge --output=FILE PART..."};
  }
  return write_result(sum->statistics, options.output);
}

Status run_statistics(const StatisticsOptions& options) {
  end_when_out_of_memory("statistics", "lower bucket = N, or the number of columns that have it");
  if (options.output.empty())
    return Error{Errc::kUsage, "statistics needs --output", "--output=statistics.json"};
  if (options.merges) return merge(options);
  if (options.parts.empty()) return observe(options);
  return Error{Errc::kUsage, fmt::format("'{}' is not a flag", options.parts.front()),
               "add --merge to merge parts"};
}

std::function<Status()> declare_statistics(FlagSet& flags) {
  const auto options = std::make_shared<StatisticsOptions>();
  flags.positionals("PART", "with --merge: a part that this command made for a trainer",
                    options->parts);
  flags.text("config", "the job.toml of the job", options->config);
  flags.repeated("set", "KEY=VALUE in place of job.toml's; repeatable", options->overrides);
  flags.number("trainer_id", "read the data of this trainer, from 0", options->trainer_id, 0,
               kCountMax);
  flags.number("num_gradient_servers",
               "number of trainers of the job; above 1 the output is a part of the statistics",
               options->num_gradient_servers, 1, pserver::kTrainersMax);
  flags.boolean("merge", "merge the parts of all trainers", options->merges);
  flags.text("output", "the file to write", options->output);
  return [options] { return run_statistics(*options); };
}

}  // namespace

const Command kStatisticsCommand{
    "statistics", "make the statistics of training data that columns are prepared with",
    R"(usage: paddle statistics --output=FILE [flags]
       paddle statistics --merge --output=FILE PART...

[data] statistics of job.toml names the file. `paddle train` with one trainer,
and paddlectl, make it themselves.

examples:
  paddle statistics --config=job.toml --output=statistics.json
  paddle statistics --trainer_id=1 --num_gradient_servers=2 --output=part-1
  paddle statistics --merge --output=statistics.json part-0 part-1
)",
    declare_statistics};

}  // namespace paddle::commands
