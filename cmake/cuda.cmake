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
    find_path(BLINK_CUDA_INCLUDE cuda.h HINTS ${nvcc_directory}/.. /usr/local/cuda
      PATH_SUFFIXES include targets/x86_64-linux/include targets/sbsa-linux/include)
  endif()
  # nvcc has the system's C++ compiler read the kernels first.
  if(BLINK_NVCC AND BLINK_CUDA_INCLUDE AND CMAKE_CXX_COMPILER)
    set(BLINK_HAVE_CUDA ON)
  elseif(NOT BLINK_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "BLINK_CUDA is ${BLINK_CUDA}, but there is no nvcc with its cuda.h (try CUDA_HOME), or no C++ compiler")
  else()
    message(STATUS "GPUs are left out of this build: there is no nvcc with its cuda.h (try CUDA_HOME), or no C++ compiler")
  endif()
endif()

# Two targets of the compiler proper serve all GPUs: what differs between the others is the assembler's business.
set(BLINK_CUDA_CODE "arch=compute_75,code=[sm_75,sm_80,sm_86]" "arch=compute_89,code=[sm_89,sm_90,compute_89]"
  CACHE STRING "What kernels are compiled to, as nvcc's -gencode says it: machine code, and PTX, which drivers assemble")

# blink_cuda_fatbin(output source [DEPENDS files…] [FLAGS nvcc-flags…]): the source compiled to all of BLINK_CUDA_CODE.
function(blink_cuda_fatbin output source)
  cmake_parse_arguments(PARSE_ARGV 2 fatbin "" "" "DEPENDS;FLAGS")
  list(TRANSFORM BLINK_CUDA_CODE PREPEND "-gencode;" OUTPUT_VARIABLE code)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${BLINK_NVCC} -fatbin -Werror all-warnings --threads 0 ${fatbin_FLAGS} ${code} ${source} -o ${output}
    DEPENDS ${source} ${fatbin_DEPENDS}
    COMMENT "Compiling ${output} for GPUs"
    VERBATIM)
endfunction()
