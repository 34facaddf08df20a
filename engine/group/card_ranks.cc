#include "engine/group/card_ranks.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "engine/gpu/device.h"
#include "engine/math/initial.h"

namespace paddle::strategy {
namespace {

// Limit for a sum, as long as the other ranks run.
constexpr Duration kPatience = std::chrono::seconds(60);
constexpr Duration kJoinPatience = std::chrono::seconds(120);
constexpr Duration kWatch = std::chrono::milliseconds(1);
// Time for another rank to report why a sum is not finite.
constexpr Duration kOthersTell = std::chrono::seconds(1);

bool clips(const wire::ParameterSet& set) {
  return set.optimizer().clip_norm() > 0 || set.optimizer().clip_global_norm() > 0 ||
         std::ranges::any_of(set.parameters(), [](const wire::ParameterSpec& spec) {
           return !spec.sparse() && spec.clip_norm() > 0;
         });
}

}  // namespace

bool CardRanks::can_keep(const wire::ParameterSet& set) {
  return !clips(set);
}

Result<std::unique_ptr<CardRanks>> CardRanks::create(const wire::ParameterSet& set,
                                                     collective::Group& group, Options options) {
  std::unique_ptr<CardRanks> ranks(new CardRanks(set, group, std::move(options)));
  PADDLE_TRY_STATUS(ranks->start());
  PADDLE_TRY_STATUS(ranks->join_cards());
  const device::Card& card = ranks->device_.card();
  log_info("dense parameters stay on GPU {} ({})", card.index, card.name);
  return ranks;
}

// Waits, since the card may still run work that uses this memory. A sum that failed ends with its
// group, and the later work of the stream runs then.
CardRanks::~CardRanks() {
  if (has_begun_sum_) cards_->abort({Errc::kInterrupted, "this trainer ends within a step"});
  cards_.reset();
  if (!done_) return;
  if (sums_) {
    device_.record(sums_->stream.handle(), sums_->done.handle());
    device_.wait_for(options_.compute.stream, sums_->done.handle());
  }
  device::drain(device_, options_.compute.stream, done_->handle());
}

Status CardRanks::lend(std::span<client::DenseParameter> parameters) {
  for (client::DenseParameter& one : parameters) {
    if (one.parameter >= update_counts_.size() ||
        set_.parameters(static_cast<int>(one.parameter)).sparse()) {
      return Error{Errc::kUsage, fmt::format("parameter {} is not dense", one.parameter)};
    }
    one.card = {at(one.parameter, 0), gradients_.data() + layout_.parameter(one.parameter).begin};
    if (cards_ != nullptr) one.card.written = bucket_of(one.parameter).written.handle().value;
  }
  return {};
}

Result<std::string> CardRanks::take(std::span<client::DenseParameter>) {
  return std::string();
}

Status CardRanks::begin_sum(std::span<const float> shares) {
  PADDLE_TRY_STATUS(finish());
  const device::StreamHandle stream = sums_->stream.handle();
  for (Bucket& bucket : buckets_) {
    device_.wait_for(stream, bucket.written.handle());
    weigh(stream, bucket.elements, shares[group_.rank()]);
    PADDLE_TRY_STATUS(cards_->sum(stream, gradients_.data() + bucket.elements.begin,
                                  bucket.elements.size(), clock_now() + kPatience));
  }
  device_.record(stream, sums_->done.handle());
  has_begun_sum_ = true;
  return {};
}

Status CardRanks::update(std::span<const float> shares, float learning_rate) {
  PADDLE_TRY_STATUS(finish());
  if (cards_ == nullptr) {
    weigh(options_.compute.stream, {0, layout_.elements()}, shares[group_.rank()]);
  } else {
    if (!std::exchange(has_begun_sum_, false)) {
      for (Bucket& bucket : buckets_) {
        device_.record(options_.compute.stream, bucket.written.handle());
      }
      PADDLE_TRY_STATUS(begin_sum(shares));
      has_begun_sum_ = false;
    }
    device_.wait_for(options_.compute.stream, sums_->done.handle());
  }
  std::size_t first = 0;
  std::size_t number = 0;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (rules_[i].is_static()) continue;
    const std::uint32_t parameter = layout_.dense()[i];
    const std::uint64_t count = ++update_counts_[parameter];
    const std::size_t size = layout_.parameter(parameter).size();
    turn_->updates.data()[number++] = {
        .first = first,
        .step = rules_[i].step(learning_rate, count),
        .value = at(parameter, 0),
        .gradient = gradients_.data() + layout_.parameter(parameter).begin,
        .state = state_width_ > 0 ? at(parameter, 1) : nullptr,
        .plane_stride = layout_.elements(),
        .average = rules_[i].has_average() ? at(parameter, state_width_) : nullptr,
        .average_weight = rules_[i].has_average() ? rules_[i].average_weight(count) : 0};
    first += size;
  }
  if (number == 0) return {};
  device_.upload(options_.compute.stream, reinterpret_cast<const std::byte*>(turn_->updates.data()),
                 reinterpret_cast<std::byte*>(turn_->on_card.data()),
                 number * sizeof(kernels::device::UpdatedParameter));
  device_.launch(options_.compute.stream,
                 kernels::device::Update{first, number, turn_->on_card.data()});
  device_.download(options_.compute.stream,
                   reinterpret_cast<const std::byte*>(turn_->on_card.data()),
                   reinterpret_cast<std::byte*>(turn_->updates.data()),
                   number * sizeof(kernels::device::UpdatedParameter));
  device_.record(options_.compute.stream, done_->handle());
  is_under_way_ = true;
  // If a sum does not end, reports it here, and not at the next use of the stream.
  return cards_ == nullptr ? Status() : finish();
}

Status CardRanks::gather(std::uint32_t root, std::uint32_t parameter, std::uint32_t plane,
                         std::span<float> into) {
  PADDLE_TRY_STATUS(finish());
  if (root != group_.rank() || into.empty()) return {};
  device_.download(options_.compute.stream,
                   reinterpret_cast<const std::byte*>(at(parameter, plane)),
                   reinterpret_cast<std::byte*>(room_.data()), into.size_bytes());
  PADDLE_TRY_STATUS(wait());
  std::copy_n(room_.data(), into.size(), into.begin());
  return {};
}

Status CardRanks::spread(std::uint32_t root, std::uint32_t parameter, std::uint32_t plane,
                         std::span<const float> from, std::uint64_t update_count) {
  PADDLE_TRY_STATUS(finish());
  update_counts_[parameter] = update_count;
  std::vector<float> values(layout_.parameter(parameter).size());
  if (!from.empty()) std::ranges::copy(from, values.begin());
  PADDLE_TRY_STATUS(group_.broadcast(root, std::as_writable_bytes(std::span(values))).wait());
  return write(at(parameter, plane), values);
}

Status CardRanks::read_part(const Put& put) {
  PADDLE_TRY_STATUS(finish());
  for (std::uint32_t number = 0; number < planes(); ++number) {
    const auto read = [&](ElementRange some) {
      device_.download(options_.compute.stream,
                       reinterpret_cast<const std::byte*>(plane(number) + some.begin),
                       reinterpret_cast<std::byte*>(room_.data()), some.size() * sizeof(float));
      const Status there = wait();
      return there ? put({room_.data(), some.size()}) : there;
    };
    PADDLE_TRY_STATUS(in_turns(part(group_.rank()), read));
  }
  return {};
}

Status CardRanks::restore_parts(const Take& take, std::span<const std::uint64_t> update_counts) {
  PADDLE_TRY_STATUS(finish());
  std::vector<float> values;
  for (std::uint32_t number = 0; number < planes(); ++number) {
    for (std::uint32_t rank = 0; rank < group_.size(); ++rank) {
      const auto restore = [&](ElementRange some) {
        values.resize(some.size());
        Status done = rank == group_.rank() ? take(values) : Status();
        const auto bytes = std::as_writable_bytes(std::span(values));
        if (done) done = group_.broadcast(rank, bytes).wait();
        return done ? write(plane(number) + some.begin, values) : done;
      };
      PADDLE_TRY_STATUS(in_turns(part(rank), restore));
    }
  }
  update_counts_.assign(update_counts.begin(), update_counts.end());
  return {};
}

void CardRanks::interrupt(const Error& why) {
  if (cards_ != nullptr) cards_->abort(why);
}

CardRanks::CardRanks(const wire::ParameterSet& set, collective::Group& group, Options options)
    : set_(set),
      group_(group),
      options_(std::move(options)),
      device_(*options_.compute.device),
      layout_(set, group.size()),
      state_width_(static_cast<std::uint32_t>(optim::state_width(set.optimizer()))),
      update_counts_(static_cast<std::size_t>(set.parameters_size())),
      values_(device_),
      gradients_(device_),
      state_(device_),
      room_(device_),
      turn_(std::make_unique<Turn>(device_)) {}

Status CardRanks::join_cards() {
  if (group_.size() == 1) return {};
  const std::set<std::uint64_t> hosts(group_.hosts().begin(), group_.hosts().end());
  if (hosts.size() > 1 && !options_.may_be_clear) {
    return Error{Errc::kUsage,
                 fmt::format("the trainers' cards are on {} hosts, and NCCL's connections between "
                             "them are neither proven nor sealed",
                             hosts.size()),
                 "on a network that you trust, set nccl_clear = true in the cluster file; or train "
                 "with dense = \"sync\""};
  }
  device::CommunicatorId id{};
  if (group_.rank() == 0) {
    PADDLE_TRY(id, device_.make_communicator_id());
  }
  PADDLE_TRY_STATUS(group_.broadcast(0, id).wait());
  PADDLE_TRY(cards_,
             device::CardGroup::join(device_, id, {group_.rank(), group_.size(), options_.job},
                                     clock_now() + kJoinPatience));
  return make_buckets();
}

Status CardRanks::start() {
  const std::size_t elements = layout_.elements();
  PADDLE_TRY(done_, device::Event::make(device_));
  std::size_t longest = 0;
  for (const std::uint32_t parameter : layout_.dense()) {
    const wire::ParameterSpec& spec = set_.parameters(static_cast<int>(parameter));
    rules_.emplace_back(set_.optimizer(), spec);
    if (!rules_.back().is_static()) updated_.push_back(parameter);
    longest = std::max(longest, layout_.parameter(parameter).size());
  }
  PADDLE_TRY_STATUS(values_.reserve(elements));
  PADDLE_TRY_STATUS(gradients_.reserve(elements));
  PADDLE_TRY_STATUS(state_.reserve(elements * state_width_));
  room_floats_ = longest;
  PADDLE_TRY_STATUS(room_.reserve(longest));
  PADDLE_TRY_STATUS(turn_->updates.reserve(updated_.size()));
  PADDLE_TRY_STATUS(turn_->on_card.reserve(updated_.size()));
  // The gaps between parameters are summed, too.
  device_.launch(options_.compute.stream, kernels::device::Fill{elements, 0, values_.data()});
  device_.launch(options_.compute.stream, kernels::device::Fill{elements, 0, gradients_.data()});
  std::vector<float> value;
  std::vector<float> state;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const std::uint32_t parameter = layout_.dense()[i];
    value.resize(layout_.parameter(parameter).size());
    state.resize(value.size() * state_width_);
    optim::fill_initial(value, set_.parameters(static_cast<int>(parameter)), set_.seed(), 0);
    rules_[i].start(value, state);
    PADDLE_TRY_STATUS(write(at(parameter, 0), value));
    for (std::uint32_t p = 1; p <= state_width_; ++p) {
      PADDLE_TRY_STATUS(write(at(parameter, p), std::span<const float>(state).subspan(
                                                    (p - 1) * value.size(), value.size())));
    }
  }
  return {};
}

// All ranks make the same buckets, in the same order.
Status CardRanks::make_buckets() {
  PADDLE_TRY(device::Stream stream, device::Stream::open(device_, device::Device::Urgency::kHigh));
  PADDLE_TRY(device::Event done, device::Event::make(device_));
  sums_ = Sums{std::move(stream), std::move(done)};
  std::uint64_t end = layout_.elements();
  const std::span<const std::uint32_t> dense = layout_.dense();
  for (auto parameter = dense.rbegin(); parameter != dense.rend(); ++parameter) {
    const std::uint64_t begin = layout_.parameter(*parameter).begin;
    if (end - begin < options_.bucket_elements && begin > 0) continue;
    PADDLE_TRY(device::Event written, device::Event::make(device_));
    buckets_.push_back({{begin, end}, std::move(written)});
    end = begin;
  }
  return {};
}

CardRanks::Bucket& CardRanks::bucket_of(std::uint32_t parameter) {
  const std::uint64_t begin = layout_.parameter(parameter).begin;
  return *std::ranges::find_if(
      buckets_, [&](const Bucket& bucket) { return bucket.elements.begin <= begin; });
}

void CardRanks::weigh(device::StreamHandle stream, ElementRange range, float share) {
  float* const gradients = gradients_.data() + range.begin;
  if (share == 0) {  // these gradients are from an earlier step's sum
    device_.launch(stream, kernels::device::Fill{range.size(), 0, gradients});
  } else if (share != 1) {
    device_.launch(stream, kernels::device::Scale{range.size(), share, gradients});
  }
}

ElementRange CardRanks::part(std::uint32_t rank) const {
  const std::uint64_t elements = layout_.elements();
  return {elements * rank / group_.size(), elements * (rank + 1) / group_.size()};
}

float* CardRanks::plane(std::uint32_t number) const {
  return number == 0 ? values_.data() : state_.data() + (number - 1) * layout_.elements();
}

Status CardRanks::in_turns(ElementRange range,
                           const std::function<Status(ElementRange)>& use) const {
  for (std::uint64_t at = range.begin; at < range.end; at += room_floats_) {
    PADDLE_TRY_STATUS(use({at, std::min(range.end, at + room_floats_)}));
  }
  return {};
}

float* CardRanks::at(std::uint32_t parameter, std::uint32_t plane) const {
  return this->plane(plane) + layout_.parameter(parameter).begin;
}

Status CardRanks::write(float* to, std::span<const float> from) {
  if (from.empty()) return {};
  std::ranges::copy(from, room_.data());
  device_.upload(options_.compute.stream, reinterpret_cast<const std::byte*>(room_.data()),
                 reinterpret_cast<std::byte*>(to), from.size_bytes());
  return wait();
}

Status CardRanks::finish() {
  if (!is_under_way_) return {};
  PADDLE_TRY_STATUS(await());
  for (std::size_t i = 0; i < updated_.size(); ++i) {
    if (turn_->updates.data()[i].not_finite == 0) continue;
    if (cards_ != nullptr) PADDLE_TRY_STATUS(group_.watch(clock_now() + kOthersTell));
    return Error{
        Errc::kFailed,
        fmt::format("the gradients of a step made values of '{}' or their optimizer's state "
                    "not finite",
                    set_.parameters(static_cast<int>(updated_[i])).name()),
        "lower optimizer.learning_rate, or bound gradients with optimizer.clip_global_norm"};
  }
  return {};
}

Status CardRanks::wait() {
  device_.record(options_.compute.stream, done_->handle());
  return await();
}

Status CardRanks::await() {
  is_under_way_ = false;
  const TimePoint deadline = clock_now() + kPatience;
  if (cards_ == nullptr) return device::as_own(device_.wait(done_->handle(), deadline));
  return cards_->wait(done_->handle(), deadline,
                      [this] { return group_.watch(clock_now() + kWatch); });
}

}  // namespace paddle::strategy
