// Memory of a card beside equal pinned memory of the host, in sections that one copy moves
// together: an order to copy costs more than some thousand bytes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/device/handles.h"

namespace paddle::nn {

class Arena {
 public:
  Arena(device::Device& device, std::size_t sections)
      : device_(device), card_(device), host_(device), sections_(sections) {}

  // Bytes of a section that the next copy moves, and those it has room for at least.
  void use(std::size_t section, std::size_t bytes, std::size_t capacity) {
    sections_[section].used = bytes;
    sections_[section].wanted = capacity;
  }
  // Makes room for the sections; true where any moved. What was in them is lost then, and nothing
  // that runs may use them.
  Result<bool> settle();

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
  // Calls copy(offset, bytes) for runs of sections with little between them.
  template <class Copy>
  void for_runs(Copy copy) const;

  device::Device& device_;
  device::CardMemory<std::byte> card_;
  device::PinnedMemory<std::byte> host_;
  std::vector<Section> sections_;
};

}  // namespace paddle::nn
