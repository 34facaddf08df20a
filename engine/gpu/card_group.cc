#include "engine/gpu/card_group.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace paddle::device {
namespace {

constexpr Duration kEndMax = std::chrono::seconds(10);
constexpr Duration kNap = std::chrono::milliseconds(1);

std::atomic<int> g_given_up = 0;  // groups of this process that have not ended within kEndMax

}  // namespace

// State that outlives the group: the thread that ends the communicator uses it, too.
struct CardGroup::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_ptr<Communicator> communicator;
  std::optional<Error> failure;
  bool has_ended = false;
  bool is_given_up = false;

  // Ends the communicator on a detached thread, because an abort may never return.
  static void begin_end(const std::shared_ptr<Shared>& shared, bool aborts) {
    std::thread([shared, aborts] {
      if (aborts) shared->communicator->abort();
      shared->communicator.reset();
      const std::scoped_lock lock(shared->mutex);
      shared->has_ended = true;
      if (shared->is_given_up) --g_given_up;
      shared->changed.notify_all();
    }).detach();
  }
};

Result<std::unique_ptr<CardGroup>> CardGroup::join(Device& device, const CommunicatorId& id,
                                                   const Member& member, TimePoint deadline) {
  if (is_stuck()) {
    return Error{Errc::kUnreachable,
                 "an earlier group of cards of this process has not ended: it cannot join another",
                 "start the process again"};
  }
  auto shared = std::make_shared<Shared>();
  PADDLE_TRY(shared->communicator, device.begin_join(id, member.rank, member.ranks, member.name));
  std::unique_ptr<CardGroup> group(new CardGroup(device, std::move(shared)));
  if (Status joined = group->taken_up(deadline); !joined) {
    return std::move(joined).error().with("the cards of all trainers join");
  }
  return group;
}

CardGroup::~CardGroup() {
  std::unique_lock lock(shared_->mutex);
  if (!shared_->failure) Shared::begin_end(shared_, false);
  if (shared_->changed.wait_for(lock, kEndMax, [this] { return shared_->has_ended; })) return;
  shared_->is_given_up = true;
  ++g_given_up;
}

bool CardGroup::is_stuck() {
  return g_given_up > 0;
}

Error CardGroup::fail(const Error& why) {
  abort(why);
  const std::scoped_lock lock(shared_->mutex);
  return *shared_->failure;
}

void CardGroup::abort(const Error& why) {
  const std::scoped_lock lock(shared_->mutex);
  if (shared_->failure) return;
  shared_->failure = why;
  shared_->changed.notify_all();
  Shared::begin_end(shared_, true);
}

template <class IsDone, class Rest>
Status CardGroup::wait_until(IsDone is_done, Rest rest, const char* what, TimePoint deadline) {
  const TimePoint spin_until = clock_now() + kSpin;
  for (;;) {
    Result<bool> done = call(is_done);
    if (!done) return fail(done.error());
    if (*done) return {};
    const TimePoint now = clock_now();
    if (now >= deadline) {
      return fail({Errc::kUnreachable,
                   std::string("the deadline passed while ") + what + " on " + device_.card().name,
                   "see the logs of the other trainers"});
    }
    if (now < spin_until) {
      pause_spin();
      continue;
    }
    if (Status rested = rest(); !rested) return fail(rested.error());
  }
}

// Makes no call after an abort has begun, because the abort frees what calls use.
template <class Call>
auto CardGroup::call(const Call& make) -> decltype(make()) {
  const std::scoped_lock lock(shared_->mutex);
  if (shared_->failure) return *shared_->failure;
  return make();
}

Status CardGroup::taken_up(TimePoint deadline) {
  const auto is_ready = [this]() -> Result<bool> {
    PADDLE_TRY(const Communicator::State state, shared_->communicator->poll());
    return state == Communicator::State::kReady;
  };
  const auto nap = [this]() -> Status {
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait_for(lock, kNap, [this] { return shared_->failure.has_value(); });
    return {};
  };
  return wait_until(is_ready, nap, "it waited for the other cards", deadline);
}

Status CardGroup::sum(StreamHandle stream, float* values, std::size_t count, TimePoint deadline) {
  PADDLE_TRY_STATUS(taken_up(deadline));
  const auto begin = [&] { return shared_->communicator->begin_sum(stream, values, count); };
  if (Status begun = call(begin); !begun) return fail(begun.error());
  return taken_up(deadline);
}

Status CardGroup::wait(EventHandle event, TimePoint deadline,
                       const std::function<Status()>& watch) {
  const auto has_come = [this, event]() -> Result<bool> {
    PADDLE_TRY_STATUS(shared_->communicator->poll());
    return device_.is_done(event);
  };
  return wait_until(has_come, watch, "a sum with the other cards was computed", deadline);
}

}  // namespace paddle::device
