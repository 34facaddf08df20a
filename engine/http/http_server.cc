#include "engine/http/http_server.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include "base/caller_source.h"
#include "base/clock.h"
#include "engine/http/request_head.h"

namespace paddle::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using ErrorCode = beast::error_code;

constexpr std::uint32_t kHeadBytesMax = 16U << 10U;
constexpr std::size_t kBufferBytesMax = 128U << 10U;  // of one connection, without the body
constexpr std::size_t kRefusalsMax = 100;             // connections that are being refused
// Read after a refusal, so that the client receives it.
constexpr std::size_t kLingerBytesMax = 4U << 20U;
constexpr std::chrono::seconds kLingerTime{2};
constexpr std::chrono::milliseconds kAcceptPause{100};  // when no descriptor is left
// After stop(), for a request on a connection that was made before it.
constexpr std::chrono::milliseconds kLastRequestTime{100};
constexpr std::size_t kSmallReply = 64U << 10U;  // a reply up to this size is always sent
static_assert(kBufferBytesMax + 2 * kHeadBytesMax + kSmallReply <= 256U << 10U);  // docs/serve.md
constexpr char kTlsHandshake = 0x16;  // RFC 8446, 5.1: the first byte of a client's first record
// A client that sends a request or takes a reply for longer than this is slow.
constexpr std::chrono::seconds kUsualTime{2};

// A body that grows with the bytes received, not to the length that the client announces.
struct GrowingBody {
  using value_type = std::string;
  static std::uint64_t size(const value_type& body) { return body.size(); }
  class reader {  // NOLINT: Beast's name
   public:
    template <bool is_request, class Fields>
    reader(http::header<is_request, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, ErrorCode& error) { error = {}; }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, ErrorCode& error) {
      error = {};
      std::size_t bytes = 0;
      for (const auto part : beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(part.data()), part.size());
        bytes += part.size();
      }
      return bytes;
    }
    void finish(ErrorCode& error) { error = {}; }

   private:
    value_type& body_;
  };
};

class Connection;

// Everything runs on the thread of run(), except stop() and the service's answers, which post.
class BeastServer final : public HttpServer, public std::enable_shared_from_this<BeastServer> {
 public:
  BeastServer(const HttpOptions& options, Service& service)
      : options_(options), service_(service), acceptor_(context_), timer_(context_) {}

  Status open();
  std::uint16_t port() const override { return acceptor_port_; }
  void run() override;
  void stop() override {
    asio::post(context_, [this] { drain(); });
  }

  const HttpOptions& options() const { return options_; }
  Service& service() { return service_; }
  asio::io_context& context() { return context_; }
  bool is_draining() const { return is_draining_; }
  // Deletes a connection on the thread of run(): an answer may drop the last reference on another.
  static void end(Connection* connection);
  void leave(Connection* connection);
  // Takes room for `bytes` more bytes of a connection from held_bytes_max. If there is too little,
  // closes connections that wait for their client, of the source that holds the most bytes: the one
  // that has waited longest first. If `connection` is of that source too, only slow ones. False:
  // there is no room.
  bool take_bytes(Connection& connection, std::uint64_t bytes);
  void give_bytes(std::uint64_t bytes) { held_bytes_ -= bytes; }

 private:
  void accept();
  void take(tcp::socket socket);
  // Closes a connection of the source that has the most, to make room for one from `newcomer`:
  // first one that has never sent a request, then an idle one, then one that sends a request or
  // takes a reply slowly; if the newcomer's source has fewer connections, also one that has just
  // begun to send a request. Of several, it closes the one that has been longest in its state.
  // False: all are at work, or have just begun.
  bool make_place(const CallerSource& newcomer);
  void drain();

  const HttpOptions options_;
  Service& service_;
  asio::io_context context_{1};
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  tcp::acceptor acceptor_;
  std::uint16_t acceptor_port_ = 0;
  asio::steady_timer timer_;  // between two attempts to accept, then for the drain
  std::unordered_set<Connection*> connections_;
  std::uint64_t held_bytes_ = 0;
  bool is_draining_ = false;
  std::atomic<bool> is_over_ = false;  // run() has ended
};

// A client's connection, with one request after the other. Each step holds a reference to the
// object until the step ends.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<BeastServer> owner, tcp::socket socket)
      : owner_(std::move(owner)),
        server_(*owner_),
        stream_(std::move(socket)),
        buffer_(kBufferBytesMax) {
    stream_.socket().set_option(tcp::no_delay(true), ignored_);
    source_ = source_of(stream_.socket().remote_endpoint(ignored_).data());
  }
  ~Connection() { server_.leave(this); }

  void wait_for_request() {
    // A request that is in the buffer already has no idle time before it.
    if (buffer_.size() > 0) return read_head();
    enter(State::kIdle);
    stream_.expires_after(server_.is_draining() ? kLastRequestTime : server_.options().idle_time);
    stream_.async_read_some(buffer_.prepare(kFirstRead),
                            [self = shared_from_this()](ErrorCode error, std::size_t bytes) {
                              self->buffer_.commit(bytes);
                              if (!error) self->read_head();
                            });
  }
  void refuse_connection() {
    is_last_ = true;
    write(refusal(503, "too many connections", "try again later"));
  }
  // A request that has arrived is still answered.
  void close_if_idle() {
    if (state_ == State::kStream ||
        (state_ == State::kIdle && stream_.socket().available(ignored_) == 0))
      close();
  }
  // Frees its bytes at once, although its last step has not ended yet.
  void close() {
    stream_.close();
    give_bytes();
    parts_.reset();
    enter(State::kClosed);
  }

  enum class State { kIdle, kHead, kBody, kWork, kReply, kStream, kClosed };
  State state() const { return state_; }
  TimePoint since() const { return since_; }
  // How much the connection deserves to stay; the least worthy is closed first.
  enum class Worth { kNeverAsked, kIdle, kSlow, kSends, kWorks };
  Worth worth() const {
    if (state_ == State::kIdle) return has_asked_ ? Worth::kIdle : Worth::kNeverAsked;
    const bool sends = state_ == State::kHead || state_ == State::kBody;
    if ((sends || takes_reply()) && is_slow()) return Worth::kSlow;
    return sends ? Worth::kSends : Worth::kWorks;
  }
  // Whether its client has bytes to read.
  bool takes_reply() const {
    return state_ == State::kReply || (state_ == State::kStream && !part_.empty());
  }
  // REQUIRES: the connection waits for its client.
  bool is_slow() const { return SteadyClock().now() - since_ > kUsualTime; }
  const CallerSource& source() const { return source_; }
  std::uint64_t held_bytes() const { return held_bytes_; }

 private:
  using Parser = http::request_parser<GrowingBody>;
  static constexpr std::size_t kFirstRead = 4096;

  void enter(State state) {
    state_ = state;
    since_ = SteadyClock().now();
  }

  void read_head() {
    give_bytes();
    enter(State::kHead);
    is_head_only_ = false;
    parser_.emplace();
    parser_->header_limit(kHeadBytesMax);
    parser_->body_limit(server_.options().body_bytes_max);
    stream_.expires_after(server_.options().head_time);
    read_to_end_of_head();
  }

  // Gives the parser a whole head, once its text has been checked.
  void read_to_end_of_head() {
    const std::string_view text(static_cast<const char*>(buffer_.data().data()), buffer_.size());
    if (text.starts_with(kTlsHandshake)) {
      is_last_ = true;
      return write(refusal(400, "this is TLS, and the server speaks plain HTTP",
                           "use http://, or a proxy that ends TLS"));
    }
    const std::size_t end = text.find("\r\n\r\n");
    if (end != std::string_view::npos && end < kHeadBytesMax)
      return take_head(text.substr(0, end + 4));
    if (text.size() > kHeadBytesMax) {
      is_last_ = true;
      return write(refusal(431, "the head of the request is too large"));
    }
    stream_.async_read_some(buffer_.prepare(kFirstRead),
                            [self = shared_from_this()](ErrorCode error, std::size_t bytes) {
                              self->buffer_.commit(bytes);
                              if (!error) self->read_to_end_of_head();
                            });
  }

  void take_head(std::string_view text) {
    // Empty lines before a request line are skipped.
    while (text.starts_with("\r\n") && text.size() > 4) {
      text.remove_prefix(2);
      buffer_.consume(2);
    }
    if (const auto fault = find_fault(text)) {
      is_last_ = true;
      return write(refusal(fault->status, "the request violates RFC 9112: " + fault->message));
    }
    ErrorCode error;
    buffer_.consume(parser_->put(boost::asio::const_buffer(text.data(), text.size()), error));
    if (!error && !parser_->is_header_done()) error = http::error::partial_message;
    if (error) return on_bad(error);
    on_head();
  }

  // After a malformed request, the start of the next one is unknown, so the connection ends.
  void on_bad(ErrorCode error) {
    if (error == http::error::end_of_stream ||
        (error == http::error::partial_message && parser_->is_header_done()) ||
        error.category() != http::make_error_code(http::error::bad_method).category())
      return;  // the client is gone, or too slow
    is_last_ = true;
    if (error == http::error::body_limit) return write(too_large());
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
      return write(refusal(431, "the head of the request is too large"));
    write(refusal(400, "this is not HTTP: " + error.message()));
  }

  void on_head() {
    const auto& head = parser_->get();
    const auto text = [&](http::field field) { return std::string(head[field]); };
    std::string host = text(http::field::host);
    std::string path = path_of({head.target().data(), head.target().size()}, host);
    request_ = {.method = std::string(head.method_string()),
                .path = std::move(path),
                .host = std::move(host),
                .content_type = text(http::field::content_type),
                .authorization = text(http::field::authorization),
                .body = {},
                .content_encoding = text(http::field::content_encoding),
                .query = query_of({head.target().data(), head.target().size()}),
                .fields = other_fields(head)};
    is_head_only_ = head.method() == http::verb::head;
    is_old_ = head.version() < 11;
    is_last_ = !head.keep_alive();
    const auto length = parser_->content_length();
    const bool has_body = parser_->chunked() || (length && *length > 0);
    if (auto refused = server_.service().refuse(request_)) {
      is_last_ = is_last_ || has_body;
      return write(*std::move(refused));
    }
    if (has_body && head.method() != http::verb::post) {
      is_last_ = true;
      return write(refusal(400, fmt::format("a {} request must not have a body", request_.method)));
    }
    if (head.method() == http::verb::post && !length && !parser_->chunked()) {
      is_last_ = true;  // bytes of a body may follow
      if (server_.options().body_bytes_max > 0) {
        return write(refusal(411, "a POST request needs the length of its body",
                             "send Content-Length, or Transfer-Encoding: chunked"));
      }
    }
    if (length && *length > server_.options().body_bytes_max) {
      is_last_ = true;
      return write(too_large());
    }
    enter(State::kBody);
    stream_.expires_after(server_.options().body_time);
    if (has_body && beast::iequals(head[http::field::expect], "100-continue"))
      return tell_to_continue();
    read_body();
  }

  static Fields other_fields(const http::fields& head) {
    Fields others;
    for (const auto& one : head) {
      switch (one.name()) {
        case http::field::host:
        case http::field::content_type:
        case http::field::authorization:
        case http::field::content_encoding:
          continue;
        default:
          others.emplace_back(lower({one.name_string().data(), one.name_string().size()}),
                              std::string(one.value()));
      }
    }
    return others;
  }

  void tell_to_continue() {
    static const std::string kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(stream_, asio::buffer(kContinue),
                      [self = shared_from_this()](ErrorCode error, std::size_t) {
                        if (!error) self->read_body();
                      });
  }

  // Counts bytes as they arrive.
  void read_body() {
    const std::string& body = parser_->get().body();
    const std::uint64_t bytes = body.empty() ? 0 : body.capacity();
    if (bytes > held_bytes_ && !take_bytes(bytes - held_bytes_)) {
      is_last_ = true;
      return write(refusal(503, "the server holds too many bytes of requests and replies",
                           "try again later"));
    }
    if (parser_->is_done()) return on_request();
    http::async_read_some(stream_, buffer_, *parser_,
                          [self = shared_from_this()](ErrorCode error, std::size_t) {
                            error ? self->on_bad(error) : self->read_body();
                          });
  }

  void on_request() {
    has_asked_ = true;
    enter(State::kWork);
    stream_.expires_never();
    request_.body = std::move(parser_->get().body());
    server_.service().answer(std::move(request_), [&context = server_.context(),
                                                   self = shared_from_this()](Reply reply) mutable {
      asio::post(context, [self = std::move(self), reply = std::move(reply)]() mutable {
        self->write(std::move(reply));
      });
    });
  }

  Reply too_large() const {
    return refusal(
        413, fmt::format("a body may have at most {} bytes", server_.options().body_bytes_max),
        server_.options().body_hint);
  }

  void write(Reply reply) {
    if (state_ == State::kClosed) return;
    // The body is used up, and the reply counts in its place.
    give_bytes();
    parser_.reset();
    const std::uint64_t bytes = reply.body.size();
    if (bytes > kSmallReply && !take_bytes(bytes))
      reply = refusal(503, "the server holds too many bytes of requests and replies",
                      "try again later");
    enter(State::kReply);
    is_last_ = is_last_ || server_.is_draining() || reply.stream;
    response_ = http::response<http::string_body>();
    response_.result(reply.status);
    response_.version(11);
    response_.set(http::field::content_type, reply.type);
    for (const Fields* const fields : {&server_.options().fields, &std::as_const(reply.fields)})
      for (const auto& [name, value] : *fields) response_.set(name, value);
    if (!reply.allow.empty()) response_.set(http::field::allow, reply.allow);
    if (reply.status == 401) response_.set(http::field::www_authenticate, "Bearer");
    if (reply.retry_seconds > 0)
      response_.set(http::field::retry_after, std::to_string(reply.retry_seconds));
    response_.keep_alive(!is_last_);
    // A client of HTTP/1.0 reads to the end of the connection unless the reply has this field.
    if (is_old_ && !is_last_) response_.set(http::field::connection, "keep-alive");
    if (reply.stream) return begin_stream(std::move(reply.stream));
    response_.body() = std::move(reply.body);
    response_.prepare_payload();
    if (is_head_only_) response_.body().clear();  // the head keeps the length
    stream_.expires_after(server_.options().reply_time);
    http::async_write(stream_, response_,
                      [self = shared_from_this()](ErrorCode error, std::size_t) {
                        self->response_ = http::response<http::string_body>();
                        if (error) return;
                        self->give_bytes();
                        self->is_last_ ? self->linger() : self->wait_for_request();
                      });
  }

  // The end of the connection is the end of the body, so that it needs no length.
  void begin_stream(std::shared_ptr<Stream> parts) {
    stream_.expires_after(server_.options().reply_time);
    const bool has_body = !is_head_only_ && !server_.is_draining();
    if (has_body) parts_ = std::move(parts);
    head_.emplace(response_);
    http::async_write_header(stream_, *head_,
                             [self = shared_from_this()](ErrorCode error, std::size_t) {
                               if (error || self->state_ == State::kClosed) return;
                               if (self->server_.is_draining()) self->parts_.reset();
                               if (!self->parts_) return self->linger();
                               if (self->server_.is_draining()) return self->close();
                               self->enter(State::kStream);
                               self->watch();
                               self->parts_->begin(self->waker());
                               self->send_part();
                             });
  }

  // Notices that the client leaves; what it sends is dropped.
  void watch() {
    buffer_.clear();
    stream_.expires_never();
    stream_.async_read_some(buffer_.prepare(kFirstRead),
                            [self = shared_from_this()](ErrorCode error, std::size_t) {
                              if (self->state_ == State::kClosed) return;
                              error ? self->close() : self->watch();
                            });
  }

  // Keeps the server, and so the queue of its thread, but not the connection.
  std::function<void()> waker() {
    return [server = owner_, to = weak_from_this()] {
      asio::post(server->context(), [to] {
        if (const auto self = to.lock()) self->send_part();
      });
    };
  }

  void send_part() {
    if (state_ != State::kStream || !part_.empty()) return;
    part_ = parts_->next();
    if (part_.empty()) return;
    if (part_.size() > kSmallReply && !take_bytes(part_.size())) return close();
    enter(State::kStream);  // since now
    stream_.expires_after(server_.options().reply_time);
    asio::async_write(stream_, asio::buffer(part_),
                      [self = shared_from_this()](ErrorCode error, std::size_t) {
                        self->part_ = {};
                        if (error && self->state_ != State::kClosed) self->close();
                        self->give_bytes();
                        self->send_part();
                      });
  }

  // Closing while the client still sends would reset the connection and the reply with it.
  void linger() {
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored_);
    stream_.expires_after(kLingerTime);
    discard();
  }
  void discard() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(kFirstRead),
                            [self = shared_from_this()](ErrorCode error, std::size_t bytes) {
                              self->discarded_ += bytes;
                              if (!error && self->discarded_ < kLingerBytesMax) self->discard();
                            });
  }

  bool take_bytes(std::uint64_t bytes) {
    if (!server_.take_bytes(*this, bytes)) return false;
    held_bytes_ += bytes;
    return true;
  }
  void give_bytes() { server_.give_bytes(std::exchange(held_bytes_, 0)); }

  friend class BeastServer;
  const std::shared_ptr<BeastServer> owner_;  // an answer may come after the server has ended
  BeastServer& server_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  Request request_;
  http::response<http::string_body> response_;
  std::optional<http::response_serializer<http::string_body>> head_;  // of a stream
  std::shared_ptr<Stream> parts_;                                     // in the state kStream
  std::string part_;                                                  // the one that is being sent
  CallerSource source_;                                               // of the client
  State state_ = State::kIdle;
  TimePoint since_ = SteadyClock().now();  // when it entered the state
  std::uint64_t held_bytes_ = 0;           // of the body, or of the reply
  std::size_t discarded_ = 0;
  bool has_asked_ = false;     // a request was answered
  bool is_head_only_ = false;  // HEAD: the reply is the one to GET, without its body
  bool is_old_ = false;        // the request is of HTTP/1.0
  bool is_last_ = false;       // no request comes after this one
  ErrorCode ignored_;
};

Status BeastServer::open() {
  ErrorCode error;
  const auto address = asio::ip::make_address(options_.address, error);
  const tcp::endpoint endpoint(address, options_.port);
  if (!error) acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  // Else a child of this process, such as ssh, keeps the port after our end.
  if (!error) ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return Error{
        Errc::kResource,
        fmt::format("listen on {} port {}: {}", options_.address, options_.port, error.message()),
        "--port=0 takes any that is free"};
  }
  acceptor_port_ = acceptor_.local_endpoint().port();
  return {};
}

void BeastServer::run() {
  work_.emplace(asio::make_work_guard(context_));
  accept();
  context_.run();
  is_over_ = true;
}

void BeastServer::accept() {
  acceptor_.async_accept([this](ErrorCode error, tcp::socket socket) {
    if (error) {
      if (is_draining_) return;
      // Usually no descriptor is left; the open connections continue.
      timer_.expires_after(kAcceptPause);
      return timer_.async_wait([this](ErrorCode ended) {
        if (!ended && !is_draining_) accept();
      });
    }
    take(std::move(socket));
    if (!is_draining_) accept();
  });
}

void BeastServer::take(tcp::socket socket) {
  ErrorCode ignored;
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  const CallerSource newcomer = source_of(socket.remote_endpoint(ignored).data());
  const bool is_full = connections_.size() >= options_.connections_max && !make_place(newcomer);
  if (is_full && connections_.size() >= options_.connections_max + kRefusalsMax) return;
  const std::shared_ptr<Connection> connection(
      new Connection(shared_from_this(), std::move(socket)), end);
  connections_.insert(connection.get());
  service_.connections().open = connections_.size();
  if (is_full) {
    ++service_.connections().refused;
    connection->refuse_connection();
  } else {
    connection->wait_for_request();
  }
}

// A closed connection is in connections_ until its last step ends.
bool BeastServer::make_place(const CallerSource& newcomer) {
  std::map<CallerSource, std::size_t> counts;
  std::size_t open = 0;
  for (const Connection* const one : connections_) {
    if (one->state() == Connection::State::kClosed) continue;
    ++counts[one->source()];
    ++open;
  }
  if (open < options_.connections_max) return true;
  std::size_t most = 0;
  for (const auto& [source, count] : counts) most = std::max(most, count);
  const auto found = counts.find(newcomer);
  const bool has_fewer = (found == counts.end() ? 0 : found->second) + 1 < most;
  Connection* longest = nullptr;
  for (Connection* const one : connections_) {
    const auto worth = one->worth();
    const bool may_go =
        worth < Connection::Worth::kSends || (has_fewer && worth == Connection::Worth::kSends);
    if (counts[one->source()] != most || !may_go) continue;
    if (longest == nullptr ||
        std::pair(worth, one->since()) < std::pair(longest->worth(), longest->since()))
      longest = one;
  }
  if (longest == nullptr) return false;
  ++service_.connections().evicted;
  longest->close();
  return true;
}

bool BeastServer::take_bytes(Connection& connection, std::uint64_t bytes) {
  while (bytes > options_.held_bytes_max - held_bytes_) {
    std::map<CallerSource, std::uint64_t> held;
    for (const Connection* const one : connections_) held[one->source()] += one->held_bytes();
    const auto most =
        std::ranges::max_element(held, {}, [](const auto& one) { return one.second; });
    if (most == held.end()) return false;
    Connection* longest = nullptr;
    for (Connection* const one : connections_) {
      const bool waits = one->state() == Connection::State::kBody || one->takes_reply();
      if (one->source() != most->first || !waits || one->held_bytes() == 0) continue;
      if (longest == nullptr || one->since() < longest->since()) longest = one;
    }
    // One that needs more room and has itself waited longest is refused, so that it learns why.
    if (longest == nullptr || longest == &connection) return false;
    if (most->first == connection.source() && !longest->is_slow()) return false;
    ++service_.connections().evicted;
    longest->close();
  }
  held_bytes_ += bytes;
  return true;
}

void BeastServer::end(Connection* connection) {
  const std::shared_ptr<BeastServer> server = connection->owner_;
  std::unique_ptr<Connection> ended(connection);
  if (!server->is_over_) asio::dispatch(server->context_, [ended = std::move(ended)] {});
}

void BeastServer::leave(Connection* connection) {
  if (is_over_) return;  // the service may be gone
  held_bytes_ -= connection->held_bytes_;
  connections_.erase(connection);
  service_.connections().open = connections_.size();
  if (is_draining_ && connections_.empty()) {
    timer_.cancel();
    work_.reset();
  }
}

void BeastServer::drain() {
  if (std::exchange(is_draining_, true)) return;
  for (Connection* const connection : connections_) connection->close_if_idle();
  // Clients that wait to be accepted may have sent their requests already.
  ErrorCode error;
  acceptor_.non_blocking(true, error);
  while (!error) {
    tcp::socket socket(context_);
    acceptor_.accept(socket, error);
    if (!error) take(std::move(socket));
  }
  acceptor_.close(error);
  timer_.expires_after(options_.drain_time);
  timer_.async_wait([this](ErrorCode ended) {
    if (ended) return;
    for (Connection* const connection : connections_) connection->close();
    work_.reset();
  });
  if (!connections_.empty()) return;
  timer_.cancel();
  work_.reset();
}

}  // namespace

Result<std::shared_ptr<HttpServer>> HttpServer::listen(const HttpOptions& options,
                                                       Service& service) {
  auto server = std::make_shared<BeastServer>(options, service);
  PADDLE_TRY_STATUS(server->open());
  return std::shared_ptr<HttpServer>(std::move(server));
}

}  // namespace paddle::http
