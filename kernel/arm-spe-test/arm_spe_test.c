// SPDX-License-Identifier: GPL-2.0
/*
 * A PMU that calls itself arm_spe_0 and writes records of the Statistical Profiling Extension into its AUX area by
 * software, on machines that have no such unit: where a timer interrupted the program, and when. For tests of what
 * records AUX data; it goes the whole way through the kernel's AUX ring, with areas that get full.
 */
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <asm/irq_regs.h>
#include <clocksource/arm_arch_timer.h>

#define RECORD_BYTES 64

static unsigned int each = 4;
module_param(each, uint, 0444);
MODULE_PARM_DESC(each, "records at each tick");
static unsigned int tick_us = 500;
module_param(tick_us, uint, 0444);
MODULE_PARM_DESC(tick_us, "microseconds between two ticks");

struct area {
	unsigned long bytes;
	u8 *base;
};

struct unit {
	struct perf_output_handle handle;
	struct hrtimer timer;
	struct perf_event *event;
};
static DEFINE_PER_CPU(struct unit, units);

static u8 *put(u8 *at, u8 header, u64 value, int bytes)
{
	*at++ = header;
	memcpy(at, &value, bytes);
	return at + bytes;
}

/* An operation that is neither load nor branch, at the interrupted place: address, type, events, padding, time. */
static void write_record(u8 *record, struct pt_regs *regs)
{
	u64 level = user_mode(regs) ? 0 : 1;
	u8 *at = record;

	memset(record, 0, RECORD_BYTES);
	at = put(at, 0xb0, (regs->pc & GENMASK_ULL(55, 0)) | level << 61 | 1ULL << 63, 8);
	at = put(at, 0x48, 0, 1);
	at = put(at, 0x52, 1 << 1, 2);
	put(record + RECORD_BYTES - 9, 0x71, __arch_counter_get_cntvct(), 8);
}

/* False where the area has no room. */
static bool begin(struct unit *unit)
{
	return perf_aux_output_begin(&unit->handle, unit->event) != NULL;
}

static enum hrtimer_restart tick(struct hrtimer *timer)
{
	struct unit *unit = container_of(timer, struct unit, timer);
	struct pt_regs *regs = get_irq_regs();
	struct perf_event *event = unit->event;
	struct area *area;
	unsigned long size = 0, at;
	bool full = false;
	unsigned int number;

	if (!event || !unit->handle.event)
		return HRTIMER_NORESTART;
	if (!regs || (event->attr.exclude_kernel && !user_mode(regs)))
		goto again;
	area = perf_get_aux(&unit->handle);
	for (number = 0; number < each; number++) {
		if (size + RECORD_BYTES > unit->handle.size) {
			full = true;
			break;
		}
		at = (unit->handle.head + size) & (area->bytes - 1);
		/* Areas are multiples of a record, and so are all heads. */
		write_record(area->base + at, regs);
		size += RECORD_BYTES;
	}
	if (full)
		perf_aux_output_flag(&unit->handle, PERF_AUX_FLAG_TRUNCATED);
	perf_aux_output_end(&unit->handle, size);
	if (full || !begin(unit)) {
		event->hw.state |= PERF_HES_STOPPED;
		return HRTIMER_NORESTART;
	}
again:
	hrtimer_forward_now(timer, ns_to_ktime(tick_us * 1000ULL));
	return HRTIMER_RESTART;
}

static void unit_start(struct perf_event *event, int flags)
{
	struct unit *unit = this_cpu_ptr(&units);

	event->hw.state = 0;
	unit->event = event;
	if (!begin(unit)) {
		event->hw.state |= PERF_HES_STOPPED;
		return;
	}
	hrtimer_start(&unit->timer, ns_to_ktime(tick_us * 1000ULL), HRTIMER_MODE_REL_PINNED_HARD);
}

static void unit_stop(struct perf_event *event, int flags)
{
	struct unit *unit = this_cpu_ptr(&units);

	if (event->hw.state & PERF_HES_STOPPED)
		return;
	/* Pinned to this CPU, whose interrupts are off; or this is the timer's own interrupt. */
	hrtimer_try_to_cancel(&unit->timer);
	if (unit->handle.event)
		perf_aux_output_end(&unit->handle, 0);
	unit->event = NULL;
	event->hw.state |= PERF_HES_STOPPED | PERF_HES_UPTODATE;
}

static int unit_add(struct perf_event *event, int flags)
{
	event->hw.state = PERF_HES_UPTODATE | PERF_HES_STOPPED;
	if (flags & PERF_EF_START)
		unit_start(event, PERF_EF_RELOAD);
	return event->hw.state & PERF_HES_STOPPED && flags & PERF_EF_START ? -EINVAL : 0;
}

static void unit_del(struct perf_event *event, int flags)
{
	unit_stop(event, PERF_EF_UPDATE);
}

static void unit_read(struct perf_event *event)
{
}

static struct pmu unit_pmu;

static int unit_event_init(struct perf_event *event)
{
	if (event->attr.type != unit_pmu.type)
		return -ENOENT;
	if (event->attr.freq)
		return -EINVAL;
	return 0;
}

static void *unit_setup_aux(struct perf_event *event, void **pages, int nr_pages, bool snapshot)
{
	struct area *area;
	struct page **list;
	int number;

	area = kzalloc(sizeof(*area), GFP_KERNEL);
	list = kcalloc(nr_pages, sizeof(*list), GFP_KERNEL);
	if (!area || !list)
		goto fail;
	for (number = 0; number < nr_pages; number++)
		list[number] = virt_to_page(pages[number]);
	area->base = vmap(list, nr_pages, VM_MAP, PAGE_KERNEL);
	area->bytes = (unsigned long)nr_pages << PAGE_SHIFT;
	if (!area->base)
		goto fail;
	kfree(list);
	return area;
fail:
	kfree(list);
	kfree(area);
	return NULL;
}

static void unit_free_aux(void *aux)
{
	struct area *area = aux;

	vunmap(area->base);
	kfree(area);
}

PMU_FORMAT_ATTR(ts_enable, "config:0");
PMU_FORMAT_ATTR(pa_enable, "config:1");
PMU_FORMAT_ATTR(jitter, "config:16");
PMU_FORMAT_ATTR(branch_filter, "config:32");
PMU_FORMAT_ATTR(load_filter, "config:33");
PMU_FORMAT_ATTR(store_filter, "config:34");
PMU_FORMAT_ATTR(event_filter, "config1:0-63");
PMU_FORMAT_ATTR(min_latency, "config2:0-11");

static struct attribute *formats[] = {
	&format_attr_ts_enable.attr,	&format_attr_pa_enable.attr,	&format_attr_jitter.attr,
	&format_attr_branch_filter.attr, &format_attr_load_filter.attr, &format_attr_store_filter.attr,
	&format_attr_event_filter.attr, &format_attr_min_latency.attr,	NULL,
};
static const struct attribute_group format_group = { .name = "format", .attrs = formats };

static ssize_t cpumask_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return cpumap_print_to_pagebuf(true, buf, cpu_online_mask);
}
static DEVICE_ATTR_RO(cpumask);
static struct attribute *others[] = { &dev_attr_cpumask.attr, NULL };
static const struct attribute_group other_group = { .attrs = others };

static ssize_t min_interval_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "1024\n");
}
static DEVICE_ATTR_RO(min_interval);
static struct attribute *caps[] = { &dev_attr_min_interval.attr, NULL };
static const struct attribute_group cap_group = { .name = "caps", .attrs = caps };

static const struct attribute_group *groups[] = { &format_group, &other_group, &cap_group, NULL };

static struct pmu unit_pmu = {
	.module = THIS_MODULE,
	.capabilities = PERF_PMU_CAP_EXCLUSIVE | PERF_PMU_CAP_ITRACE,
	.attr_groups = groups,
	.task_ctx_nr = perf_sw_context,
	.event_init = unit_event_init,
	.add = unit_add,
	.del = unit_del,
	.start = unit_start,
	.stop = unit_stop,
	.read = unit_read,
	.setup_aux = unit_setup_aux,
	.free_aux = unit_free_aux,
};

static int __init unit_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct unit *unit = per_cpu_ptr(&units, cpu);

		hrtimer_init(&unit->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
		unit->timer.function = tick;
	}
	return perf_pmu_register(&unit_pmu, "arm_spe_0", -1);
}

static void __exit unit_exit(void)
{
	perf_pmu_unregister(&unit_pmu);
}

module_init(unit_init);
module_exit(unit_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Test PMU that writes AUX data");
