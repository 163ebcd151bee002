// Made only so that CMake precompiles Google Test's headers for all tests (CMakeLists.txt).
int main() {}
