// SPDX-License-Identifier: GPL-2.0
// A module outside of the tree: it adds up what is written to /proc/fold. scripts/kernel-modules.sh builds and loads it.
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/uaccess.h>

static u64 sum;

static noinline u64 step(u64 sum, u8 byte)
{
	if (unlikely(byte == 0))
		return sum * 31 + 7;
	if (byte & 1)
		return (sum << 3) ^ byte;
	return sum + byte;
}

static ssize_t fold_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	u8 bytes[256];
	size_t some = min(count, sizeof(bytes));

	if (copy_from_user(bytes, from, some))
		return -EFAULT;
	for (size_t i = 0; i < some; i++)
		sum = step(sum, bytes[i]);
	return some;
}

static const struct proc_ops fold_ops = { .proc_write = fold_write };

static int __init fold_init(void)
{
	return proc_create("fold", 0200, NULL, &fold_ops) ? 0 : -ENOMEM;
}

static void __exit fold_exit(void)
{
	remove_proc_entry("fold", NULL);
}

module_init(fold_init);
module_exit(fold_exit);
MODULE_LICENSE("GPL");
