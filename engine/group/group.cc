#include "engine/group/group.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/version.h"
#include "engine/group/engine.h"
#include "engine/math/rank_sums.h"
#include "engine/net/mesh.h"
#include "proto/collective.pb.h"

namespace paddle::collective {
namespace {

// A hash of the kernel's boot id. It differs between machines even if they have the same name, and
// is equal in all containers of one machine.
std::uint64_t host_number() {
  const auto boot = read_file("/proc/sys/kernel/random/boot_id", 4096);
  return boot ? stable_hash(*boot) : 0;
}

Status check(const GroupOptions& options) {
  if (options.members.empty() || options.members.size() > kRanksMax) {
    return Error{Errc::kUsage, fmt::format("the group has {} ranks; the limit is {}",
                                           options.members.size(), kRanksMax)};
  }
  if (options.rank >= options.members.size()) {
    return Error{Errc::kUsage, fmt::format("rank {} is outside a group of {} ranks", options.rank,
                                           options.members.size())};
  }
  if (options.lanes < 1 || options.lanes > net::peer::kLanesMax) {
    return Error{Errc::kUsage, fmt::format("the number of lanes is {}, must be 1 to {}",
                                           options.lanes, net::peer::kLanesMax)};
  }
  if (!options.ids.empty() && options.ids.size() != options.members.size()) {
    return Error{Errc::kUsage, fmt::format("there are {} ids for {} ranks", options.ids.size(),
                                           options.members.size())};
  }
  return {};
}

wire::Member member_of(const GroupOptions& options,
                       std::span<const std::unique_ptr<net::peer::Connection>> connections) {
  wire::Member member;
  member.set_size(static_cast<std::uint32_t>(options.members.size()));
  member.set_version(kProgramVersion);
  for (const auto& connection : connections) {
    member.add_incarnations(connection == nullptr ? options.incarnation
                                                  : connection->ends().peer_incarnation);
  }
  member.set_host(options.host != 0 ? options.host : host_number());
  member.set_gpu(options.gpu);
  return member;
}

// Returns an error if another rank's view of the group contradicts this rank's view.
Status compare(const wire::Member& own, const std::string& own_name, const wire::Member& other,
               const std::string& other_name) {
  if (other.version() != own.version()) {
    return Error{Errc::kVersion,
                 fmt::format("{} runs paddle {}, but {} runs {}", other_name,
                             escape_control(other.version()), own_name, own.version()),
                 "start all ranks with the same program"};
  }
  if (other.size() != own.size()) {
    return Error{Errc::kUsage, fmt::format("{} is in a group of {}, but {} is in one of {}",
                                           other_name, other.size(), own_name, own.size())};
  }
  if (!std::ranges::equal(other.incarnations(), own.incarnations())) {
    return Error{Errc::kUnreachable,
                 fmt::format("{} is connected to other processes of the ranks than {}", other_name,
                             own_name),
                 "an earlier process of a rank is still running, or one has just been restarted"};
  }
  return {};
}

// kUsage if two ranks have the same card.
Status compare_cards(std::span<const wire::Member> members, std::span<const std::string> names) {
  for (std::size_t a = 0; a < members.size(); ++a) {
    for (std::size_t b = 0; b < a && !members[a].gpu().empty(); ++b) {
      if (members[a].gpu() != members[b].gpu()) continue;
      return Error{Errc::kUsage, fmt::format("{} and {} use the same GPU, {}", names[b], names[a],
                                             escape_control(members[a].gpu()))};
    }
  }
  return {};
}

// Exchanges the ranks' views of the group and compares them. Returns the number of each rank's
// machine, by rank.
Result<std::vector<std::uint64_t>> meet(Engine& engine, const wire::Member& own,
                                        std::span<const std::string> names, TimePoint deadline) {
  Operation operation;
  operation.type = FrameType::kMember;
  operation.head = own.SerializeAsString();
  PADDLE_TRY_STATUS(engine.wait(engine.post(std::move(operation)), deadline));
  const std::vector<GroupCore::Facts> facts = engine.take_facts();
  std::vector<wire::Member> members(facts.size());
  std::vector<std::uint64_t> hosts;
  for (std::uint32_t rank = 0; rank < facts.size(); ++rank) {
    wire::Member& member = members[rank];
    if (rank == engine.rank()) {
      member = own;
    } else if (!member.ParseFromString(facts[rank].head)) {
      return Error{Errc::kData, names[rank] + " sent a malformed Member"};
    } else {
      PADDLE_TRY_STATUS(compare(own, names[engine.rank()], member, names[rank]));
    }
    hosts.push_back(member.host());
  }
  PADDLE_TRY_STATUS(compare_cards(members, names));
  return hosts;
}

Operation bucket_operation(Pattern pattern, std::span<std::byte> data) {
  Operation operation;
  operation.shape.pattern = pattern;
  operation.shape.bytes = data.size();
  operation.data = data;
  return operation;
}

// The weight of each rank's host sum, by rank: 1 if any rank of that host contributes, else 0.
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

Result<std::unique_ptr<Group>> Group::join(GroupOptions options, TimePoint deadline) {
  PADDLE_TRY_STATUS(check(options));
  GroupCore::Options core{.rank = options.rank,
                          .size = static_cast<std::uint32_t>(options.members.size()),
                          .slow_after = options.slow_after,
                          .gone_after = options.gone_after};
  std::vector<net::Endpoint> endpoints;
  const auto id_of = [&](std::uint32_t rank) {
    return options.ids.empty() ? rank : options.ids[rank];
  };
  for (std::uint32_t rank = 0; rank < core.size; ++rank) {
    core.names.push_back(fmt::format("rank {} ({})", id_of(rank), options.members[rank].node));
    endpoints.push_back(options.members[rank].endpoint);
  }
  const std::vector<std::string> names = core.names;
  std::vector<std::unique_ptr<net::peer::Connection>> connections(core.size);
  if (core.size > 1) {
    net::peer::MeshOptions mesh{.self = {.keys = options.keys,
                                         .id = {Role::kTrainer, id_of(options.rank)},
                                         .incarnation = options.incarnation,
                                         .job_tag = options.job_tag,
                                         .transport = options.transport,
                                         .shares_memory = options.shares_memory,
                                         .lanes = options.lanes},
                                .listener = std::move(options.listener),
                                .endpoints = std::move(endpoints),
                                .ids = options.ids,
                                .names = names,
                                .stop_asked = options.stop};
    if (!mesh.listener) {
      PADDLE_TRY(mesh.listener, net::peer::listen(mesh.endpoints[options.rank]));
    }
    PADDLE_TRY(connections, net::peer::connect_ranks(mesh, deadline));
  }
  const wire::Member own = member_of(options, connections);
  PADDLE_TRY(std::shared_ptr<Engine> engine, Engine::start(std::move(core), std::move(connections),
                                                           {.lost_after = options.lost_after,
                                                            .stop_asked = options.stop,
                                                            .events_file = options.events_file,
                                                            .on_waiting = options.on_waiting}));
  auto hosts = meet(*engine, own, names, deadline);
  if (!hosts) {
    engine->abort(hosts.error());
    engine->end();
    return std::move(hosts).error();
  }
  return std::unique_ptr<Group>(
      new Group(std::move(engine), *std::move(hosts), options.sums_on_hosts));
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
                info ? fmt::format("{} trains plan {:016x}, but {} trains plan {:016x}",
                                   name(other), info->plan_hash, name(rank()), own.plan_hash)
                     : name(other) + " sent a malformed Step",
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

Result<Tally> Group::sum(const Tally& own) {
  struct Entries {
    std::uint64_t counts = 0;
    std::uint64_t sums = 0;
    std::uint64_t histograms = 0;
    std::uint64_t grouped = 0;
    std::uint64_t bytes = 0;
  };
  const Bytes bytes = encode(own);
  std::vector<Entries> shapes(size());
  shapes[rank()] = {own.counts.size(), own.sums.size(), own.histograms.size(), own.grouped.size(),
                    bytes.size()};
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
    const auto tally =
        decode_tally(part, shape.counts, shape.sums, shape.histograms, shape.grouped);
    if (!tally) return fail(tally.error());
    if (tally->empty()) continue;
    if (!total.empty() && !total.same_shape(*tally)) {
      return fail({Errc::kUsage,
                   fmt::format("the evaluators of {} differ from those of the ranks before it",
                               name(other))});
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

void Group::report_waiting(std::span<const std::uint32_t> ranks, Duration waited) {
  engine_->report_waiting(ranks, waited);
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

Group::Group(std::shared_ptr<Engine> engine, std::vector<std::uint64_t> hosts, bool sums_on_hosts)
    : engine_(std::move(engine)), hosts_(std::move(hosts)) {
  auto levels = std::make_shared<const Hosts>(hosts_);
  if (sums_on_hosts && levels->have_two_levels()) levels_ = std::move(levels);
}

Operation Group::on_level(Pattern pattern, std::span<std::byte> data) const {
  Operation operation = bucket_operation(pattern, data);
  operation.shape.hosts = levels_;
  return operation;
}

Pending Group::exchange(std::span<std::byte> blocks) {
  return {engine_, engine_->post(bucket_operation(Pattern::kExchange, blocks))};
}

}  // namespace paddle::collective
