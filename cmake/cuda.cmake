# Where the CUDA compiler and its header are. Nothing links CUDA: kernels become fatbins that are embedded, libcuda is
# loaded at run time. AUTO builds what needs nvcc if there is one, ON insists on it.
set(BLINK_CUDA AUTO CACHE STRING "Build the CUDA parts: AUTO (if nvcc is there), ON or OFF")
set_property(CACHE BLINK_CUDA PROPERTY STRINGS AUTO ON OFF)
set(BLINK_HAVE_CUDA OFF)
if(BLINK_CUDA)
  find_program(BLINK_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  if(BLINK_NVCC)
    file(REAL_PATH ${BLINK_NVCC} nvcc_file)
    cmake_path(GET nvcc_file PARENT_PATH nvcc_directory)
    execute_process(COMMAND ${BLINK_NVCC} --version OUTPUT_VARIABLE nvcc_text)
    string(REGEX MATCH "release ([0-9.]+)" nvcc_text "${nvcc_text}")
    set(BLINK_CUDA_VERSION ${CMAKE_MATCH_1})
    find_path(BLINK_CUDA_INCLUDE cuda.h HINTS ${nvcc_directory}/.. /usr/local/cuda
      PATH_SUFFIXES include targets/x86_64-linux/include targets/sbsa-linux/include)
  endif()
  # nvcc has the system's C++ compiler read the kernels first.
  if(NOT (BLINK_NVCC AND BLINK_CUDA_INCLUDE AND CMAKE_CXX_COMPILER))
    set(lacking "there is no nvcc with its cuda.h (try CUDA_HOME), or no C++ compiler")
  elseif(BLINK_CUDA_VERSION VERSION_LESS 12.0)
    set(lacking "${BLINK_NVCC} is of CUDA ${BLINK_CUDA_VERSION}, and 12.0 is the first that will do")
  else()
    set(lacking)
    set(BLINK_HAVE_CUDA ON)
  endif()
  if(lacking AND NOT BLINK_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "BLINK_CUDA is ${BLINK_CUDA}, but ${lacking}")
  elseif(lacking)
    message(STATUS "GPUs are left out of this build: ${lacking}")
  endif()
endif()

# blink_cuda_code(version result): what that toolkit compiles kernels to, as nvcc's -gencode says it.
function(blink_cuda_code version result)
  set(code)
  file(STRINGS ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/cuda_targets lines REGEX "^[0-9]")
  foreach(line IN LISTS lines)
    string(REPLACE " " ";" field "${line}")
    list(GET field 0 from)
    list(GET field 1 before)
    if(version VERSION_GREATER_EQUAL from AND version VERSION_LESS before)
      list(GET field 2 arch)
      list(GET field 3 made)
      list(APPEND code "arch=${arch},code=[${made}]")
    endif()
  endforeach()
  set(${result} ${code} PARENT_SCOPE)
endfunction()

if(BLINK_HAVE_CUDA)
  blink_cuda_code(${BLINK_CUDA_VERSION} code)
  set(BLINK_CUDA_CODE ${code} CACHE STRING "What kernels are compiled to, machine code and PTX, as nvcc's -gencode says it")
endif()

# blink_cuda_fatbin(output source [DEPENDS files…] [FLAGS nvcc-flags…]): the source compiled to all of BLINK_CUDA_CODE.
function(blink_cuda_fatbin output source)
  cmake_parse_arguments(PARSE_ARGV 2 fatbin "" "" "DEPENDS;FLAGS")
  set(werror)
  if(BLINK_WERROR)
    set(werror -Werror all-warnings)
  endif()
  list(TRANSFORM BLINK_CUDA_CODE PREPEND "-gencode;" OUTPUT_VARIABLE code)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${BLINK_NVCC} -fatbin ${werror} -Wno-deprecated-gpu-targets --threads 0 ${fatbin_FLAGS} ${code}
      ${source} -o ${output}
    DEPENDS ${source} ${fatbin_DEPENDS}
    COMMENT "Compiling ${output} for GPUs"
    VERBATIM)
endfunction()
