/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The sections of the workload, in the order in which they run.
 *
 * SECTION(number, name, needs, load, rounds, reference):
 *   number     1..=99 training, 101..=199 held out; the number in the marker
 *   needs      NOTHING, or LOOPBACK where the section uses the Internet protocols
 *   load       ANY, or LOW or HIGH where one and many clients are sections of their own
 *   rounds     repetitions at 100 percent
 *   reference  operations per second that score 10 points in the index
 *
 * The reference rates are fixed numbers, of the order of a hundredth of what a machine of 2024 does. They set the scale
 * and nothing else: a ratio of two indexes over the same sections does not depend on them.
 */
SECTION(1, syscall, NOTHING, ANY, 12000, 40000)
SECTION(2, pipe_latency, NOTHING, LOW, 3500, 2000)
SECTION(3, pipe_ring, NOTHING, HIGH, 300, 2500)
SECTION(4, pipe_stream, NOTHING, ANY, 600, 700)
SECTION(5, file_copy, NOTHING, ANY, 90, 8000)
SECTION(6, file_random, NOTHING, ANY, 6000, 15000)
SECTION(7, path_walk, NOTHING, ANY, 1200, 10000)
SECTION(8, directory, NOTHING, ANY, 48, 7000)
SECTION(9, fork_wait, NOTHING, LOW, 150, 100)
SECTION(10, fork_many, NOTHING, HIGH, 9, 100)
SECTION(11, exec, NOTHING, ANY, 60, 40)
SECTION(12, thread, NOTHING, ANY, 200, 300)
SECTION(13, map_anonymous, NOTHING, ANY, 60, 10000)
SECTION(14, map_file, NOTHING, ANY, 240, 10000)
SECTION(15, copy_on_write, NOTHING, ANY, 40, 6000)
SECTION(16, map_change, NOTHING, ANY, 175, 5000)
SECTION(17, unix_stream, NOTHING, LOW, 1800, 1500)
SECTION(18, unix_stream_many, NOTHING, HIGH, 1800, 1800)
SECTION(19, unix_dgram, NOTHING, ANY, 3600, 3000)
SECTION(20, tcp_stream, LOOPBACK, LOW, 600, 250)
SECTION(21, tcp_stream_many, LOOPBACK, HIGH, 640, 250)
SECTION(22, tcp_rr, LOOPBACK, LOW, 1500, 500)
SECTION(23, tcp_rr_many, LOOPBACK, HIGH, 1600, 700)
SECTION(24, tcp_crr, LOOPBACK, LOW, 360, 150)
SECTION(25, tcp_crr_many, LOOPBACK, HIGH, 320, 150)
SECTION(26, udp_rr, LOOPBACK, LOW, 1800, 700)
SECTION(27, udp_rr_many, LOOPBACK, HIGH, 1920, 900)
SECTION(28, epoll, NOTHING, ANY, 4500, 10000)
SECTION(29, event_timer, NOTHING, ANY, 5000, 10000)
SECTION(30, poll_select, NOTHING, ANY, 1200, 3000)
SECTION(31, futex, NOTHING, LOW, 5000, 1500)
SECTION(32, futex_many, NOTHING, HIGH, 640, 1500)
SECTION(33, signal, NOTHING, ANY, 3600, 6000)
SECTION(34, yield, NOTHING, ANY, 1500, 6000)
SECTION(35, proc_read, NOTHING, ANY, 180, 800)
SECTION(101, shell_pipeline, NOTHING, ANY, 10, 15)
SECTION(102, key_value, LOOPBACK, LOW, 1000, 450)
SECTION(103, key_value_many, LOOPBACK, HIGH, 800, 600)
SECTION(104, compile_tree, NOTHING, ANY, 6, 4000)
SECTION(105, allocate, NOTHING, ANY, 12, 4000)
SECTION(106, splice, NOTHING, ANY, 180, 2000)
SECTION(107, pass_descriptor, NOTHING, ANY, 1400, 2000)
SECTION(108, log_append, NOTHING, LOW, 3600, 4000)
SECTION(109, log_append_many, NOTHING, HIGH, 2880, 3000)
SECTION(110, prefork, NOTHING, HIGH, 800, 250)
SECTION(111, process_list, NOTHING, ANY, 10, 700)
SECTION(112, shared_ring, NOTHING, ANY, 32, 3000)
SECTION(113, dns_batch, LOOPBACK, ANY, 120, 1500)
SECTION(114, wait_events, NOTHING, ANY, 1000, 1500)
