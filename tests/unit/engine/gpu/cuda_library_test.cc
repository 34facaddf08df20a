#include "engine/gpu/cuda_library.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "engine/gpu/cuda_nccl.h"
#include "engine/gpu/cuda_products.h"
#include "tests/support/temporary_folder.h"

namespace paddle::device {
namespace {

using test::TemporaryFolder;

// A library that every machine has, by another name.
std::string folder_with(const TemporaryFolder& folder, const std::string& name) {
  std::filesystem::create_symlink("/lib/x86_64-linux-gnu/libm.so.6", folder / name);
  return folder / "";
}

TEST(CudaLibrary, Trap30OneThatIsNowhereIsNamedWithAllThatWasTried) {
  TemporaryFolder folder;
  folder.write("broken/libcublasLt.so.13", "no library");
  const auto api = Library::open("libcublasLt.so.13", {"/nowhere", folder / "broken"});
  ASSERT_FALSE(api);
  EXPECT_EQ(api.error().code, Errc::kResource);
  const std::string& message = api.error().message;
  EXPECT_TRUE(message.starts_with("libcublasLt.so.13 cannot be loaded; /nowhere: no such file; "))
      << message;
  EXPECT_NE(message.find(folder / "broken/libcublasLt.so.13"), message.npos) << message;
  EXPECT_NE(api.error().hint.find("PADDLE_CUDA_LIBRARY_PATH"), std::string::npos);
}

TEST(CudaLibrary, Trap30AllSymbolsThatAreMissingAreNamedAtOnce) {
  TemporaryFolder folder;
  const std::string file = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  const auto lt = load_lt({folder_with(folder, file)});
  ASSERT_FALSE(lt);
  EXPECT_EQ(lt.error().code, Errc::kVersion);
  EXPECT_NE(lt.error().message.find(" has no cublasLtGetVersion, "), std::string::npos)
      << lt.error().message;
  EXPECT_TRUE(lt.error().message.ends_with(", cublasLtMatmul"));
  const auto nccl = load_nccl({folder_with(folder, "libnccl.so.2")});
  ASSERT_FALSE(nccl);
  EXPECT_EQ(nccl.error().code, Errc::kVersion);
  EXPECT_TRUE(nccl.error().message.ends_with("ncclCommAbort, ncclCommDestroy"))
      << nccl.error().message;
}

TEST(CudaLibrary, TheUsersFoldersComeFirst) {
  ASSERT_EQ(::setenv("PADDLE_CUDA_LIBRARY_PATH", ":/first::/second", 1), 0);
  const auto folders = library_folders();
  ASSERT_EQ(::unsetenv("PADDLE_CUDA_LIBRARY_PATH"), 0);
  ASSERT_GE(folders.size(), 3U);
  EXPECT_EQ(folders[0], "/first");
  EXPECT_EQ(folders[1], "/second");
  EXPECT_EQ(folders[2], "") << "then the loader's own";
}

TEST(CudaLibrary, ThoseOfThisMachineHaveAllThatIsNeeded) {
  const auto lt = load_lt(library_folders());
  const auto nccl = load_nccl(library_folders());
  for (const Error* error : {lt ? nullptr : &lt.error(), nccl ? nullptr : &nccl.error()}) {
    if (error == nullptr) continue;
    EXPECT_EQ(error->code, Errc::kResource) << error->message;
  }
  if (!lt || !nccl) GTEST_SKIP() << "this machine lacks cuBLASLt or NCCL";
  EXPECT_EQ(lt->version / 10000, CUBLAS_VER_MAJOR);
  EXPECT_EQ(nccl->version / 10000, NCCL_MAJOR);
}

}  // namespace
}  // namespace paddle::device
