#include "engine/collective/group.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/collective/engine.h"
#include "engine/kernels/rank_sums.h"

namespace paddle::collective {
namespace {

Operation bucket_operation(Pattern pattern, std::span<std::byte> data) {
  Operation operation;
  operation.shape.pattern = pattern;
  operation.shape.bytes = data.size();
  operation.data = data;
  return operation;
}

// The weights of the hosts' sums, by rank: a host none of whose ranks takes part has none.
std::vector<float> host_shares(std::span<const float> shares, const Hosts& hosts) {
  std::vector<float> weights(shares.size());
  for (std::uint32_t rank = 0; rank < shares.size(); ++rank) {
    const auto takes_part = [&](std::uint32_t other) { return shares[other] != 0; };
    const bool is_any = std::ranges::any_of(hosts.ranks(hosts.host_of(rank)), takes_part);
    weights[rank] = is_any ? 1.0F : 0.0F;
  }
  return weights;
}

}  // namespace

bool Pending::done() const {
  return engine_ == nullptr || engine_->is_done(number_);
}

Status Pending::wait() const {
  return engine_ == nullptr ? Status() : engine_->wait(number_);
}

Group::Group(std::shared_ptr<Engine> engine, std::vector<std::uint64_t> hosts, bool sums_on_hosts)
    : engine_(std::move(engine)), hosts_(std::move(hosts)) {
  auto levels = std::make_shared<const Hosts>(hosts_);
  if (sums_on_hosts && levels->have_two_levels()) levels_ = std::move(levels);
}

Group::~Group() {
  engine_->end();
}

std::uint32_t Group::rank() const {
  return engine_->rank();
}
std::uint32_t Group::size() const {
  return engine_->size();
}
const std::string& Group::name(std::uint32_t rank) const {
  return engine_->name(rank);
}

Range Group::slice(std::size_t bytes, std::uint32_t rank) const {
  return is_levelled(bytes) ? slice_of(bytes, *levels_, rank) : slice_of(bytes, size(), rank);
}
std::uint32_t Group::owners() const {
  return levels_ ? levels_->count() * levels_->places() : size();
}

BucketMemory Group::allocate(std::size_t floats) {
  return engine_->allocate(floats);
}

Operation Group::on_level(Pattern pattern, std::span<std::byte> data) const {
  Operation operation = bucket_operation(pattern, data);
  operation.shape.hosts = levels_;
  return operation;
}

Result<std::span<const StepInfo>> Group::begin_step(const StepInfo& own, std::span<float> carried,
                                                    Shares shares) {
  Operation operation;
  operation.type = FrameType::kStep;
  operation.step = own.step;
  operation.head = encode(own);
  operation.tail = bytes_of(std::span<const float>(carried));
  PADDLE_TRY_STATUS(engine_->wait(engine_->post(std::move(operation))));
  const std::vector<GroupCore::Facts> facts = engine_->take_facts();
  infos_.assign(size(), own);
  std::vector<const float*> terms(size(), carried.data());
  for (std::uint32_t other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    const auto info = decode_step(facts[other].step, facts[other].head);
    const bool is_plan = info && info->plan_hash == own.plan_hash;
    if (!is_plan) {
      Error why{Errc::kUsage,
                info ? fmt::format("{} trains plan {:016x}, and {} plan {:016x}", name(other),
                                   info->plan_hash, name(rank()), own.plan_hash)
                     : name(other) + " sends no facts of a step",
                "do both have the same job file and flags?"};
      engine_->abort(why);
      return why;
    }
    infos_[other] = *info;
    terms[other] = reinterpret_cast<const float*>(facts[other].tail.data());
  }
  if (!carried.empty()) {
    kernels::weighted_sum(carried.size(), terms, shares(infos_), carried.data());
  }
  return std::span<const StepInfo>(infos_);
}

Pending Group::reduce_scatter(std::span<float> bucket, std::span<const float> shares,
                              std::span<kernels::Bf16> packed) {
  const auto data = std::as_writable_bytes(bucket);
  if (is_levelled(data.size())) {
    PADDLE_CHECK(packed.empty());
    Operation on_host = on_level(Pattern::kReduceOnHost, data);
    on_host.weights.assign(shares.begin(), shares.end());
    engine_->post(std::move(on_host));
    Operation between = on_level(Pattern::kReduceBetween, data);
    between.weights = host_shares(shares, *levels_);
    between.follows = true;
    return {engine_, engine_->post(std::move(between))};
  }
  Operation operation = bucket_operation(Pattern::kReduce, data);
  operation.weights.assign(shares.begin(), shares.end());
  operation.packed = packed;
  return {engine_, engine_->post(std::move(operation))};
}

Pending Group::all_gather(std::span<float> bucket, std::span<kernels::Bf16> packed) {
  if (packed.empty()) return all_gather_bytes(std::as_writable_bytes(bucket));
  PADDLE_CHECK(!is_levelled(bucket.size_bytes()));
  Operation operation = bucket_operation(Pattern::kGather, std::as_writable_bytes(bucket));
  operation.packed = packed;
  return {engine_, engine_->post(std::move(operation))};
}

Pending Group::all_gather_bytes(std::span<std::byte> bucket) {
  if (is_levelled(bucket.size())) {
    engine_->post(on_level(Pattern::kGatherBetween, bucket));
    Operation on_host = on_level(Pattern::kGatherOnHost, bucket);
    on_host.follows = true;
    return {engine_, engine_->post(std::move(on_host))};
  }
  return {engine_, engine_->post(bucket_operation(Pattern::kGather, bucket))};
}

Pending Group::broadcast(std::uint32_t root, std::span<std::byte> data) {
  PADDLE_CHECK(root < size());
  Operation operation = bucket_operation(Pattern::kBroadcast, data);
  operation.shape.root = root;
  return {engine_, engine_->post(std::move(operation))};
}

Pending Group::exchange(std::span<std::byte> blocks) {
  return {engine_, engine_->post(bucket_operation(Pattern::kExchange, blocks))};
}

Result<Tally> Group::sum(const Tally& own) {
  struct Entries {
    std::uint64_t counts = 0;
    std::uint64_t sums = 0;
    std::uint64_t histograms = 0;
    std::uint64_t bytes = 0;
  };
  const Bytes bytes = encode(own);
  std::vector<Entries> shapes(size());
  shapes[rank()] = {own.counts.size(), own.sums.size(), own.histograms.size(), bytes.size()};
  PADDLE_TRY_STATUS(exchange(std::as_writable_bytes(std::span(shapes))).wait());
  const auto fail = [&](Error why) {
    abort(why);
    return why;
  };
  std::size_t block = 0;
  for (const Entries& shape : shapes) {
    if (shape.bytes > kTallyBytesMax) return fail({Errc::kData, "a rank's tally is too long"});
    block = std::max(block, static_cast<std::size_t>(shape.bytes));
  }
  Bytes blocks(block * size());
  std::ranges::copy(bytes, blocks.begin() + static_cast<std::ptrdiff_t>(block * rank()));
  PADDLE_TRY_STATUS(exchange(blocks).wait());
  Tally total;
  for (std::uint32_t other = 0; other < size(); ++other) {
    const Entries& shape = shapes[other];
    const ByteSpan part = ByteSpan(blocks).subspan(block * other, shape.bytes);
    const auto tally = decode_tally(part, shape.counts, shape.sums, shape.histograms);
    if (!tally) return fail(tally.error());
    if (tally->empty()) continue;
    if (!total.empty() && !total.same_shape(*tally)) {
      return fail({Errc::kUsage,
                   fmt::format("{} counts other things than the ranks before it", name(other))});
    }
    total.add(*tally);
  }
  return total;
}

Status Group::barrier() {
  std::vector<std::byte> blocks(size());
  return exchange(blocks).wait();
}

void Group::serve_in_background() {
  engine_->serve_in_background();
}

void Group::set_activity(std::string_view activity) {
  engine_->set_activity(activity);
}

void Group::tell_waiting(std::span<const std::uint32_t> ranks, Duration waited) {
  engine_->tell_waiting(ranks, waited);
}

void Group::abort(Error why) {
  engine_->abort(std::move(why));
}

Status Group::watch(TimePoint deadline) {
  return engine_->watch(deadline);
}

Status Group::leave(TimePoint deadline) {
  Operation operation;
  operation.type = FrameType::kLeaveGroup;
  return engine_->wait(engine_->post(std::move(operation)), deadline);
}

std::vector<Event> Group::events() const {
  return engine_->events();
}

}  // namespace paddle::collective
