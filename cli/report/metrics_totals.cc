#include "cli/report/metrics_totals.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace paddle::cli {
namespace {

constexpr std::size_t kPassesKnownMax = 20'000;
constexpr std::size_t kLongPausesMax = 1'000;
constexpr int kLengthBits = 7;  // a rounded length is at most 1.6 % shorter

bool trains(const MetricsLine& line) {
  return line.kind == "train" || line.kind == "pass";
}

// The length with all but its highest bits cleared, so that there are few different ones.
std::int64_t rounded(std::int64_t length) {
  const int width = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(length)));
  const int cleared = std::max(0, width - kLengthBits);
  return length >> cleared << cleared;
}

}  // namespace

void MetricsTotals::Mean::add(const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return;
  sum += *value;
  ++count;
}

std::uint64_t StepCount::at(const MetricsLine& line) {
  // Lines of a program of one's own may lack the pass.
  if (line.pass < pass_ && !trains(line)) return begin_ + in_pass_ + line.batch;
  if (line.pass != pass_) {
    const auto known = begins_.lower_bound(line.pass);
    begin_ = known == begins_.end() ? begin_ + in_pass_ : known->second;
    begins_.erase(known, begins_.end());
    begins_.emplace(line.pass, begin_);
    if (begins_.size() > kPassesKnownMax) begins_.erase(begins_.begin());
    pass_ = line.pass;
    in_pass_ = 0;
  }
  in_pass_ = std::max(in_pass_, line.batch);
  return begin_ + line.batch;
}

void MetricsTotals::add(const MetricsLine& line) {
  step_ = steps_.at(line);
  if (line.kind == "pserver") return;
  add_samples(line);
  if (!trains(line)) return;
  rate_.add(line.number("examples_per_second"));
  busy_.add(line.number("examples_per_busy_second"));
  add_pause(line);
}

void MetricsTotals::add_samples(const MetricsLine& line) {
  if (!trains(line) && line.kind != "stop") return;
  const bool same_pass = trained_ && trained_->pass == line.pass;
  const bool is_new_run = same_pass && line.samples < trained_->samples;
  if (!same_pass) before_ = 0;
  // A run that goes back to an earlier batch trains again what came after that batch.
  if (is_new_run)
    before_ = line.batch > trained_->batch ? before_ + static_cast<double>(trained_->samples) : 0;
  PassSamples& pass = passes_[line.pass];
  pass.samples = before_ + static_cast<double>(line.samples);
  pass.is_split = (same_pass && pass.is_split) || before_ > 0;
  trained_ = Place{line.pass, line.batch, line.samples, line.unix_ms};
  if (passes_.size() <= kPassesKnownMax) return;
  samples_of_former_ += passes_.begin()->second.samples;
  passes_.erase(passes_.begin());
}

void MetricsTotals::add_pause(const MetricsLine& line) {
  const auto before = std::exchange(logged_, Place{line.pass, line.batch, 0, line.unix_ms});
  const bool is_pause = before && before->pass == line.pass && line.batch >= before->batch &&
                        line.unix_ms > before->unix_ms;
  if (!is_pause) return;
  const std::int64_t length = line.unix_ms - before->unix_ms;
  ++pauses_[rounded(length)];
  ++pauses_counted_;
  if (length < kStallMsMin) return;
  ++long_pauses_seen_;
  long_pauses_.emplace_back(before->unix_ms, line.unix_ms);
  if (long_pauses_.size() > kLongPausesMax) long_pauses_.pop_front();
}

double MetricsTotals::samples() const {
  double all = samples_of_former_;
  for (const auto& [pass, trained] : passes_) all += trained.samples;
  return all;
}

std::vector<std::pair<std::int64_t, std::int64_t>> MetricsTotals::stalls() const {
  if (pauses_counted_ < 3) return {};  // no usual length to compare with
  std::int64_t usual = 0;
  std::uint64_t counted = 0;
  for (const auto& [length, count] : pauses_) {
    usual = length;
    counted += count;
    if (counted > pauses_counted_ / 2) break;
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for (const auto& [begin, end] : long_pauses_) {
    if (end - begin >= kStallFactor * usual) found.emplace_back(begin, end);
  }
  return found;
}

}  // namespace paddle::cli
