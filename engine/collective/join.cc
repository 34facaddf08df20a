// How a rank comes into its group: a connection with every other rank, and one view of who they
// are.
#include <fmt/format.h>

#include "base/fd.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/version.h"
#include "engine/collective/engine.h"
#include "engine/collective/group.h"
#include "engine/net/peer/mesh.h"
#include "proto/collective.pb.h"

namespace paddle::collective {
namespace {

// The kernel's number of this boot: machines of one name differ, containers of one machine do not.
std::uint64_t host_number() {
  const auto boot = read_file("/proc/sys/kernel/random/boot_id", 4096);
  return boot ? stable_hash(*boot) : 0;
}

Status check(const GroupOptions& options) {
  if (options.members.empty() || options.members.size() > kRanksMax) {
    return Error{Errc::kUsage, fmt::format("a group of {} ranks; the limit is {}",
                                           options.members.size(), kRanksMax)};
  }
  if (options.rank >= options.members.size()) {
    return Error{Errc::kUsage,
                 fmt::format("rank {} in a group of {}", options.rank, options.members.size())};
  }
  if (options.lanes < 1 || options.lanes > net::peer::kLanesMax) {
    return Error{Errc::kUsage, fmt::format("{} lanes; 1 to {} are possible", options.lanes,
                                           net::peer::kLanesMax)};
  }
  if (!options.ids.empty() && options.ids.size() != options.members.size()) {
    return Error{Errc::kUsage,
                 fmt::format("{} ids of {} ranks", options.ids.size(), options.members.size())};
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

// How another rank's view contradicts this one's.
Status compare(const wire::Member& own, const std::string& own_name, const wire::Member& other,
               const std::string& other_name) {
  if (other.version() != own.version()) {
    return Error{Errc::kVersion,
                 fmt::format("{} runs paddle {}, and {} runs {}", other_name,
                             escape_control(other.version()), own_name, own.version()),
                 "start all ranks with the same program"};
  }
  if (other.size() != own.size()) {
    return Error{Errc::kUsage, fmt::format("{} is in a group of {}, and {} in one of {}",
                                           other_name, other.size(), own_name, own.size())};
  }
  if (!std::ranges::equal(other.incarnations(), own.incarnations())) {
    return Error{
        Errc::kUnreachable,
        fmt::format("{} has met other incarnations of the ranks than {}", other_name, own_name),
        "an earlier process of a rank is still running, or one has just been restarted"};
  }
  return {};
}

// No two ranks have one card.
Status compare_cards(std::span<const wire::Member> members, std::span<const std::string> names) {
  for (std::size_t a = 0; a < members.size(); ++a) {
    for (std::size_t b = 0; b < a && !members[a].gpu().empty(); ++b) {
      if (members[a].gpu() != members[b].gpu()) continue;
      return Error{Errc::kUsage, fmt::format("{} and {} have one card, {}", names[b], names[a],
                                             escape_control(members[a].gpu()))};
    }
  }
  return {};
}

// Tells every rank this one's view and hears theirs; their machines, by rank.
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
      return Error{Errc::kData, names[rank] + " sends no facts of a member"};
    } else {
      PADDLE_TRY_STATUS(compare(own, names[engine.rank()], member, names[rank]));
    }
    hosts.push_back(member.host());
  }
  PADDLE_TRY_STATUS(compare_cards(members, names));
  return hosts;
}

}  // namespace

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

}  // namespace paddle::collective
