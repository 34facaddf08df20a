// Serves the connections of a group. A caller that waits serves them on its own thread, so that a
// small exchange wakes no other thread; at other times a thread of the engine serves them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "engine/group/bucket_memory.h"
#include "engine/group/group_core.h"
#include "engine/net/peer_connection.h"

namespace paddle::collective {

constexpr Duration kTick = std::chrono::milliseconds(100);

class Engine {
 public:
  struct Options {
    // A peer is lost if its machine acknowledges nothing for so long.
    Duration lost_after = std::chrono::milliseconds(1500);
    std::function<bool()> stop_asked = {};
    std::string events_file = {};  // events_file and on_waiting as in GroupOptions
    std::function<void(std::span<const std::uint32_t> ranks, Duration waited)> on_waiting = {};
  };
  // `connections` are by rank, null for this rank.
  static Result<std::unique_ptr<Engine>> start(
      GroupCore::Options core, std::vector<std::unique_ptr<net::peer::Connection>> connections,
      Options options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::uint32_t rank() const { return core_.rank(); }
  std::uint32_t size() const { return core_.size(); }
  const std::string& name(std::uint32_t rank) const { return core_.name(rank); }
  // Any thread may call these.
  std::uint64_t post(Operation&& operation);
  bool is_done(std::uint64_t number);
  // Serves the group until the operation is done. Returns the first cause if the group has failed,
  // kUnreachable at the deadline.
  Status wait(std::uint64_t number, TimePoint deadline = TimePoint::max());
  BucketMemory allocate(std::size_t floats);  // as Group::allocate()
  // The facts that the ranks have sent in a finished operation that exchanges facts, by rank.
  std::vector<GroupCore::Facts> take_facts();
  void abort(Error why);
  // Serves the group until it fails or the deadline passes. Returns the first cause, or OK.
  Status watch(TimePoint deadline);
  void set_activity(std::string_view activity);
  // Calls on_waiting if it is due, for a wait that consists of several calls. wait() needs no such
  // call.
  void report_waiting(std::span<const std::uint32_t> ranks, Duration waited);
  // Lets the engine's thread serve the posted operations until the next wait().
  void serve_in_background();
  // Ends the group: sends a failure to the peers, closes all connections and joins the thread.
  // Later waits fail.
  void end();
  std::vector<Event> events();

 private:
  struct Peer {
    std::unique_ptr<net::peer::Connection> connection;
    bool is_paused = false;          // its next frame is not wanted yet (kLater)
    bool is_taking = false;          // its next frame is wanted, and incomplete
    bool is_ready = true;            // false: poll() found nothing to read
    std::optional<Error> deaf = {};  // writes have failed; it may have sent an abort
  };
  class Turn;

  Engine(GroupCore::Options core, Options options)
      : core_(std::move(core)), options_(std::move(options)) {}
  Status open(std::vector<std::unique_ptr<net::peer::Connection>> connections);
  void run();
  bool serve(TimePoint now);
  void look();
  bool write(TimePoint now, std::uint32_t rank);
  bool read(TimePoint now, std::uint32_t rank);
  void lose(TimePoint now, std::uint32_t rank, const Error& why);
  void tick(TimePoint now);
  void tell_awaited(TimePoint now, std::span<const std::uint32_t> ranks, Duration waited);
  void sleep(TimePoint until);
  void take_abort(TimePoint now);
  void let_go();
  void report();
  void linger();
  void part(TimePoint end);

  std::mutex mutex_;  // guards the members up to wake_
  GroupCore core_;
  Options options_;
  std::vector<Peer> peers_;  // by rank
  std::size_t arrays_ = 0;   // number of lent arrays
  TimePoint ticked_{};
  TimePoint told_{};
  bool is_reported_ = false;
  bool has_let_go_ = false;   // let_go() was called
  bool has_changed_ = false;  // paused peers' frames may be wanted now
  bool judges_again_ = false;
  bool is_parting_ = false;  // end() serves; no other thread gets a Turn

  UniqueFd wake_;        // ends a sleep() of the thread that serves
  UniqueFd background_;  // ends the sleep of the engine's thread
  std::atomic<int> waiters_ = 0;
  std::atomic<bool> sleeps_ = false;
  std::atomic<bool> serves_alone_ = false;  // between serve_in_background() and the next wait
  std::atomic<bool> is_ending_ = false;
  std::atomic<bool> abort_is_asked_ = false;
  std::mutex abort_mutex_;
  std::optional<Error> abort_;
  std::thread thread_;
};

}  // namespace paddle::collective
