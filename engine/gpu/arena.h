// Arena: memory of a card, with pinned memory of the host in the same layout. Uploads: copies the
// inputs of steps to a card through two arenas in turn.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/gpu/handles.h"

namespace paddle::nn {

// Memory of a card and pinned memory of the host with the same sections. Sections close to each
// other are copied by one command, because a command costs more than copying some thousand bytes.
class Arena {
 public:
  Arena(device::Device& device, std::size_t sections)
      : device_(device), card_(device), host_(device), sections_(sections) {}

  // Sets the bytes of a section that the next copy moves, and the bytes that settle() makes room
  // for at least. REQUIRES: bytes <= capacity.
  void use(std::size_t section, std::size_t bytes, std::size_t capacity) {
    sections_[section].used = bytes;
    sections_[section].wanted = capacity;
  }
  bool has_room() const;
  // Bytes of the section that there is room for.
  std::size_t capacity(std::size_t section) const { return sections_[section].capacity; }
  // Makes room for the sections. True if they moved: their contents are then lost. REQUIRES: no
  // running command of the card uses the sections if they move.
  Result<bool> settle();
  // Makes each section as large as that of `other`, which has the same sections; as settle().
  Result<bool> settle_as(const Arena& other);

  template <class T>
  T* card(std::size_t section) const {
    return reinterpret_cast<T*>(card_.data() + sections_[section].offset);
  }
  template <class T>
  T* host(std::size_t section) const {
    return reinterpret_cast<T*>(host_.data() + sections_[section].offset);
  }

  void upload(device::StreamHandle stream) const;
  void download(device::StreamHandle stream) const;

 private:
  struct Section {
    std::size_t offset = 0;
    std::size_t used = 0;
    std::size_t wanted = 0;
    std::size_t capacity = 0;
  };
  Status reserve(std::size_t bytes);
  // Calls copy(offset, bytes) for each run of used sections that have only small gaps between them.
  template <class Copy>
  void for_runs(Copy copy) const;

  device::Device& device_;
  device::CardMemory<std::byte> card_;
  device::PinnedMemory<std::byte> host_;
  std::vector<Section> sections_;
};

// Copies the inputs of steps to a card. Two arenas take turns, so that the inputs of the next step
// can be written and copied while a step is computed.
//
//     arena 0   step 0: copied  computed | step 2: written  copied           computed
//     arena 1            step 1: written  copied           computed | step 3: written ...
//
// INVARIANT: both have the same room. So memory is made only before a step, never while one is
// computed, when the card might wait for a sum with other cards first.
class Uploads {
 public:
  static constexpr std::size_t kArenas = 2;

  // `compute` is the stream that computes the steps. The device must outlive the result.
  static Result<Uploads> make(device::Device& device, std::size_t sections,
                              device::StreamHandle compute);

  // The arena for the next step. Waits until the card has computed the last step that used this
  // arena, or, if that step was never computed, until the arena has been copied; its contents are
  // then lost. kUnreachable: the wait lasts until the deadline.
  Result<Arena*> take(TimePoint deadline);
  // Makes room for the sections of the arena that was last taken, and as much in the other one.
  // REQUIRES: no step is computed. kUnreachable: as take().
  Status settle(TimePoint deadline);
  // Index of the arena that was last taken.
  std::size_t turn() const { return turn_; }
  // Starts to copy the arena to the card. The step before may still be computed.
  void send();
  // Makes later commands of the compute stream wait until the arena is on the card.
  void await() const { device_->wait_for(compute_, turns_[turn_].sent.handle()); }
  // REQUIRES: all commands that read the arena have been given to the compute stream. take() waits
  // until they are done.
  void release();

 private:
  struct Turn {
    Arena arena;
    device::Event sent;
    device::Event computed;
    bool is_sent = false;
    bool is_lent = false;  // commands before `computed` read it
  };
  Uploads(device::Device& device, device::Stream copies, device::StreamHandle compute)
      : device_(&device), compute_(compute), copies_(std::move(copies)) {}
  // Waits until no command uses the arena.
  Status free(Turn& turn, TimePoint deadline);

  device::Device* device_;
  device::StreamHandle compute_;
  std::vector<Turn> turns_;
  std::size_t turn_ = 0;
  device::Stream copies_;  // destroyed first: it reads the arenas
};

}  // namespace paddle::nn
