// A reader of a job whose pservers listen on loopback ports.
#include "engine/client/row_reader.h"

#include <sys/stat.h>

#include <thread>

#include "engine/net/identity.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/engine/client/client_fixture.h"

namespace paddle::client {
namespace {

// One pserver with one sparse port.
class Pserver {
 public:
  explicit Pserver(std::uint32_t index)
      : shard_({.make_policy = strategy::make_update_policy,
                .index = index,
                .is_sparse = true,
                .job_tag = net::job_tag_of("job"),
                .server_generation = 1}) {
    auto server = net::TcpServer::listen({.endpoint = {"127.0.0.1", 0},
                                          .keys = *net::job_keys("", {}),
                                          .self = {Role::kPserver, index},
                                          .job_tag = net::job_tag_of("job"),
                                          .server_generation = 1},
                                         shard_);
    EXPECT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Pserver() { stop(); }
  void stop() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", server_->port()); }
  void drop_reader() { server_->drop({Role::kReader, 0}, 0, "a test"); }
  // REQUIRES: the pserver has stopped.
  bool finished() const { return shard_.finished(); }

 private:
  pserver::Shard shard_;
  std::unique_ptr<net::TcpServer> server_;
  std::thread thread_;
};

class RowReaderTest : public ::testing::Test {
 protected:
  ConnectOptions options() const {
    return {.pservers = {first_.address(), second_.address()},
            .ports_num = 0,
            .job_tag = "job",
            .connect_timeout = 20};
  }
  // A trainer that has joined, so that the job has values.
  std::unique_ptr<ParameterClient> trainer() const {
    auto set = test::small_set("sgd", 1);
    set.mutable_parameters()->DeleteSubrange(0, 2);  // the job has no dense parameters
    set.mutable_parameters(0)->set_initial_mean(0.25F);
    auto joined = connect(options(), set);
    EXPECT_TRUE(joined) << joined.error().message;
    if (!joined || !(*joined)->ready()) return nullptr;
    return *std::move(joined);
  }
  static std::vector<SparseRows> rows(std::vector<std::uint64_t> ids) {
    std::vector<SparseRows> all(1);
    all[0].ids = std::move(ids);
    return all;
  }
  static std::vector<float> read(RowReader& reader, const std::vector<std::uint64_t>& ids) {
    auto wanted = rows(ids);
    const Status pulled = reader.pull(wanted, SparseChannel::Reads::kToTest);
    EXPECT_TRUE(pulled) << pulled.error().message;
    return wanted[0].values;
  }
  static void push(ParameterClient& trainer, const std::vector<std::uint64_t>& ids) {
    auto pushed = rows(ids);
    ASSERT_TRUE(trainer.pull_rows(pushed));
    pushed[0].gradients.assign(ids.size() * 3, 1.0F);
    ASSERT_TRUE(trainer.push(1, 0.5, {}, pushed));
  }

  Pserver first_{0}, second_{1};
};

const std::vector<std::uint64_t> kIds{1, 2, 3, 4, 5, 6, 7, 8};  // on both shards

TEST_F(RowReaderTest, ReadsWhatATrainerHasPushed) {
  auto job = trainer();
  ASSERT_TRUE(job);
  RowReader reader(options());
  const Status connected = reader.connect();
  ASSERT_TRUE(connected) << connected.error().message;
  ASSERT_EQ(reader.parameters().parameters_size(), 1);
  EXPECT_EQ(reader.parameters().parameters(0).name(), "words");
  EXPECT_EQ(read(reader, kIds), std::vector<float>(kIds.size() * 3, 0.25F)) << "no row is there";
  push(*job, kIds);
  auto expected = rows(kIds);
  ASSERT_TRUE(job->pull_rows(expected));
  EXPECT_EQ(read(reader, kIds), expected[0].values);
  EXPECT_NE(expected[0].values, std::vector<float>(kIds.size() * 3, 0.25F));
}

TEST_F(RowReaderTest, TheJobEndsWithoutIt) {
  auto job = trainer();
  ASSERT_TRUE(job);
  RowReader reader(options());
  ASSERT_TRUE(reader.connect());
  ASSERT_TRUE(job->finish_pass({}));
  ASSERT_TRUE(job->leave());
  first_.stop();
  second_.stop();
  EXPECT_TRUE(first_.finished());
  EXPECT_TRUE(second_.finished());
}

TEST_F(RowReaderTest, ConnectsAgainWhenItWasDisconnected) {
  auto job = trainer();
  ASSERT_TRUE(job);
  push(*job, kIds);
  RowReader reader(options());
  ASSERT_TRUE(reader.connect());
  const std::vector<float> before = read(reader, kIds);
  first_.drop_reader();
  second_.drop_reader();
  EXPECT_EQ(read(reader, kIds), before);
}

TEST_F(RowReaderTest, WithoutValuesItWaitsAndThenSaysSo) {
  ConnectOptions hasty = options();
  hasty.connect_timeout = 1;
  RowReader reader(hasty);
  const Status connected = reader.connect();
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, Errc::kUnreachable);
  EXPECT_NE(connected.error().message.find("the job has no values to read yet"), std::string::npos)
      << connected.error().message;

  RowReader patient(options());
  std::unique_ptr<ParameterClient> job;
  std::thread later([&] {
    while (patient.waiting_for().empty()) std::this_thread::yield();
    job = trainer();
  });
  EXPECT_TRUE(patient.connect());
  later.join();
  EXPECT_EQ(patient.waiting_for(), "");
}

TEST_F(RowReaderTest, AnInterruptEndsTheWait) {
  RowReader reader(options());
  std::thread other([&] {
    while (reader.waiting_for().empty()) std::this_thread::yield();
    reader.interrupt(Error{Errc::kInterrupted, "enough"});
  });
  const Status connected = reader.connect();
  other.join();
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().message, "enough");
}

TEST_F(RowReaderTest, PserversInAnotherOrderOrNumberAreRefused) {
  auto job = trainer();
  ASSERT_TRUE(job);
  ConnectOptions swapped = options();
  std::swap(swapped.pservers[0], swapped.pservers[1]);
  const Status refused = RowReader(swapped).connect();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kAuth);
  EXPECT_EQ(refused.error().hint, "list --pservers in the order of their --pserver_id");

  ConnectOptions three = options();
  three.pservers.push_back(three.pservers[0]);
  const Status uneven = RowReader(three).connect();
  ASSERT_FALSE(uneven);
  EXPECT_EQ(uneven.error().code, Errc::kUsage);
  EXPECT_EQ(uneven.error().message,
            "the job has 0 ports for dense parameters and 2 for tables, which 3 pservers do not "
            "share evenly");
}

TEST_F(RowReaderTest, ATrainersKeysAreNotThoseOfAReader) {
  const test::TemporaryFolder folder;
  const Secret secret = *Secret::generate();
  const NodeId server{Role::kPserver, 0};
  const Bytes keys = encode_keys(secret, {Role::kTrainer, 0}, false, {&server, 1});
  ConnectOptions wrong = options();
  wrong.key_file = folder.write("trainer-0", std::string(as_text(keys)));
  ::chmod(wrong.key_file.c_str(), 0600);
  const Status refused = RowReader(wrong).connect();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kAuth) << refused.error().message;
}

}  // namespace
}  // namespace paddle::client
