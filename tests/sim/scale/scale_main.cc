// Runs one job of many processes in this one, and prints what grows with their numbers.
#include <charconv>
#include <cstdio>
#include <string_view>

#include "tests/sim/scale/job.h"

namespace paddle::sim {
namespace {

// "800x200": trainers and pservers.
bool read_size(std::string_view text, ScaleOptions& options) {
  const char* const end = text.data() + text.size();
  const auto [x, error] = std::from_chars(text.data(), end, options.trainers);
  if (error != std::errc() || x == end || *x != 'x') return false;
  const auto [last, bad] = std::from_chars(x + 1, end, options.pservers);
  return bad == std::errc() && last == end && options.trainers > 0 &&
         options.trainers <= pserver::kTrainersMax && options.pservers > 0;
}

int run(const ScaleOptions& options) {
  const ScaleReport report = ScaledJob(options).run();
  const double trainers = options.trainers;
  const double ports = 2.0 * options.pservers;
  std::printf("%u trainers, %u pservers with a dense and a sparse port each, %s\n",
              options.trainers, options.pservers,
              options.strategy == wire::STRATEGY_SYNC ? "sync" : "async");
  std::printf("%-16s %10s %10s %10s %10s %9s %9s %9s\n", "step", "requests", "answers", "B/request",
              "B/answer", "ms/port", "us/frame", "us/answer");
  for (const StepCost& step : report.steps) {
    const double requests = static_cast<double>(step.requests);
    const double answers = static_cast<double>(step.answers);
    const double frames = requests > 0 ? requests : answers;
    std::printf("%-16s %10.0f %10.0f %10.1f %10.1f %9.3f %9.3f %9.3f\n", step.name.c_str(),
                requests, answers, requests > 0 ? double(step.request_bytes) / requests : 0,
                answers > 0 ? double(step.answer_bytes) / answers : 0,
                1e3 * step.port_seconds / ports, frames > 0 ? 1e6 * step.port_seconds / frames : 0,
                answers > 0 ? 1e6 * step.trainer_seconds / answers : 0);
  }
  std::printf(
      "bytes: %.0f of a port for each trainer, %.0f more for each push that waits, %.0f of "
      "a trainer for each port\n",
      double(report.places) / ports / trainers,
      trainers > 1 ? double(report.waiting) / ports / (trainers - 1) : 0,
      double(report.lanes) / ports / trainers);
  if (report.error.empty()) return 0;
  std::printf("WRONG: %s\n", report.error.c_str());
  return 1;
}

}  // namespace
}  // namespace paddle::sim

int main(int argc, char** argv) {
  using namespace paddle;
  sim::ScaleOptions options;
  const std::string_view strategy = argc > 2 ? argv[2] : "sync";
  const bool is_async = strategy == "async";
  if (argc < 2 || argc > 3 || !sim::read_size(argv[1], options) ||
      (!is_async && strategy != "sync")) {
    std::fprintf(stderr, "usage: scale_sim TRAINERSxPSERVERS [sync|async]\n");
    return 2;
  }
  if (is_async) options.strategy = wire::STRATEGY_ASYNC;
  return sim::run(options);
}
