// Bytes of a peer to a server's and a client's session: honest frames, forged ones with right
// checksums, and noise; or a key file. Nobody without the key may be proven.
#include <cstdlib>

#include "engine/net/frame_io.h"
#include "engine/net/session.h"
#include "tests/fuzz/input.h"

using namespace paddle;
using namespace paddle::net;

namespace {

constexpr std::uint64_t kJob = 0x1122334455667788;
constexpr std::size_t kProvenBufferBytes = 1U << 16U;
constexpr NodeId kServer{Role::kPserver, 3};
constexpr NodeId kClient{Role::kTrainer, 7};

const JobKeys& keys() {
  static const JobKeys kKeys =
      JobKeys::of_job(*Secret::from_bytes(Bytes(kSecretBytes, std::byte{1})));
  return kKeys;
}

void append_frame(Bytes& to, const Frame& frame) {
  append_bytes<std::byte>(to, encode_header(frame));
  append_bytes<char>(to, frame.head);
  append_bytes<std::byte>(to, frame.tail);
}

void append_text(Bytes& to, std::string_view text) {
  append_bytes(to, std::span<const char>(text));
}

// Both ends of one connection, with a stranger or the honest client at the other.
class Connection {
 public:
  explicit Connection(fuzz::Input& input) : input_(input), cut_(1U + input.byte() * 8U) {}

  void run() {
    while (open_ && !input_.empty()) {
      Bytes bytes;
      switch (input_.below(6)) {
        case 0:
          append_frame(bytes, client_.hello());
          break;
        case 1:
          if (proof_) append_frame(bytes, *proof_);
          was_honest_ = was_honest_ || proof_.has_value();
          break;
        case 2:
          append_text(bytes, input_.text(input_.byte()));
          break;
        default:
          append_frame(bytes, forged());
      }
      if (input_.rarely(16) && !bytes.empty()) {
        bytes[input_.byte() % bytes.size()] ^= std::byte{input_.byte()};
      }
      receive(bytes);
    }
  }

 private:
  Frame forged() {
    Frame frame;
    frame.header.type = input_.rarely(64) ? input_.byte() : 1 + input_.below(7);
    frame.header.job_tag = input_.rarely(32) ? input_.number() : kJob;
    frame.header.sender = input_.flag() ? kClient : kServer;
    if (input_.rarely(32))
      frame.header.sender = unpack(static_cast<std::uint32_t>(input_.number()));
    frame.header.incarnation = static_cast<std::uint32_t>(input_.number());
    frame.header.server_generation = input_.number();
    constexpr std::array<std::uint8_t, 6> kTails = {0, 1, 32, 40, 64, 255};
    append_text(frame.tail, input_.text(input_.choice(kTails)));
    if (input_.rarely(32)) frame.head = input_.text(input_.byte());
    return frame;
  }

  void receive(ByteSpan bytes) {
    while (open_ && !bytes.empty()) {
      const std::span<std::byte> space = reader_.space();
      const std::size_t count = std::min({space.size(), bytes.size(), cut_});
      std::copy_n(bytes.begin(), count, space.begin());
      reader_.commit(count);
      bytes = bytes.subspan(count);
      for (;;) {
        const auto frame = reader_.next();
        if (!frame) open_ = false;
        if (!frame || !*frame) break;
        take(**frame);
      }
    }
  }

  void take(const Frame& frame) {
    if (frame.tail.size() > kUnprovenPayloadBytesMax && !server_.proven()) std::abort();
    if (server_.proven()) {
      if (server_.check(frame.header)) ++applied_;
    } else if (const auto answer = server_.on_frame(TimePoint{}, frame)) {
      if (const auto proof = client_.on_frame(*answer); proof && *proof) proof_ = **proof;
      if (server_.proven()) reader_.set_limits(kProvenBufferBytes, kFramePayloadBytesMax);
    }
    if (server_.proven() && !was_honest_) std::abort();
    ClientSession stranger = fresh_client_;
    static_cast<void>(stranger.on_frame(frame));
    if (stranger.established()) std::abort();
  }

  fuzz::Input& input_;
  std::size_t cut_;  // bytes that arrive at once
  bool open_ = true;
  bool was_honest_ = false;
  std::uint64_t applied_ = 0;
  std::optional<Frame> proof_;
  FrameReader reader_{kUnprovenBufferBytes, kUnprovenPayloadBytesMax};
  ServerSession server_{{keys(), kServer, kJob, 9}, Nonce{}, TimePoint{}};
  ClientSession fresh_client_{{*keys().pair(kClient, kServer), kClient, 5, kServer, kJob}, Nonce{}};
  ClientSession client_ = fresh_client_;
};

// Frames whose tails a client reads straight into its own memory, in pieces, or along with their
// headers. A whole frame must have the tail that was sent.
class PlacedTails {
  static constexpr std::size_t kLongestTail = 20'000;

 public:
  explicit PlacedTails(fuzz::Input& input) : input_(input), cut_(1U + input.byte() * 8U) {}

  void run() {
    while (open_ && !input_.empty()) {
      constexpr std::array<std::size_t, 7> kTails = {0, 1, 31, 256, 1000, 5000, kLongestTail};
      Frame frame;
      frame.head = input_.text(input_.below(64));
      sent_.resize(input_.choice(kTails));
      std::uint32_t value = input_.byte();
      for (std::byte& byte : sent_) byte = static_cast<std::byte>((value += 7) >> 1U);
      frame.tail = sent_;
      placed_ = {};
      Bytes bytes;
      append_frame(bytes, frame);
      is_intact_ = !input_.rarely(32);
      if (!is_intact_) bytes[input_.number() % bytes.size()] ^= std::byte{1};
      for (ByteSpan left = bytes; open_ && !left.empty();) receive(left);
    }
  }

 private:
  void receive(ByteSpan& bytes) {
    const auto spaces = reader_.space(std::span(likely_).first(input_.flag() ? kLongestTail : 0));
    std::size_t read = 0;
    for (const std::span<std::byte> space : spaces) {
      const std::size_t count = std::min({space.size(), bytes.size(), cut_ - read});
      std::copy_n(bytes.begin(), count, space.begin());
      bytes = bytes.subspan(count);
      read += count;
    }
    reader_.commit(read);
    const auto frame = reader_.next([this](const FrameHeader&, std::string_view, std::size_t tail) {
      const std::size_t first = input_.byte() % (tail + 1);
      placed_ = std::span(input_.flag() ? likely_ : elsewhere_).first(tail);
      if (input_.flag()) return std::vector{placed_.first(first), placed_.subspan(first)};
      placed_ = {};
      return std::vector<std::span<std::byte>>();
    });
    open_ = bool(frame);
    if (!open_ && is_intact_) std::abort();
    if (!open_ || !*frame || !is_intact_) return;
    const ByteSpan tail = placed_.empty() ? ByteSpan((*frame)->tail) : placed_;
    if (!std::ranges::equal(tail, sent_)) std::abort();
  }

  fuzz::Input& input_;
  std::size_t cut_;
  bool open_ = true;
  bool is_intact_ = true;
  Bytes sent_;
  Bytes likely_ = Bytes(kLongestTail);
  Bytes elsewhere_ = Bytes(kLongestTail);
  std::span<std::byte> placed_;
  FrameReader reader_{512, 1U << 20U};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t kind = input.byte() % 8;
  if (kind == 0) {
    const auto process = JobKeys::decode(as_bytes(input.rest()));
    if (process) static_cast<void>(process->pair(kClient, kServer));
    return 0;
  }
  if (kind == 2) {
    PlacedTails(input).run();
  } else {
    Connection(input).run();
  }
  return 0;
}
