// SPDX-License-Identifier: GPL-2.0-only
/*
 * A disk for guests that count instructions: it keeps time by the guest's own clock.
 *
 * QEMU throttles a disk by the host's clock, which such a guest knows nothing of (its own stands still while it
 * computes slowly, and jumps while it waits). So the disk is in memory, and serves one request after the other,
 * each for as long as its bytes take: writes in one line, reads in another, as QEMU's throttle has it. Its queue is
 * otherwise what virtio-blk has on one CPU: 256 requests of up to 254 segments, a write cache, no scheduler.
 *
 * The memory is that of a PCI device, ivshmem, one for each disk, in their order: the guest's kernel does not count
 * it as its own, the host gives what is written alone, and all of it reads as zeroes first, as a new image does.
 *
 * Parameter size: bytes of each disk. Disks appear as /dev/weirN with the serial weir-N; /sys/block/weirN has
 * write_bandwidth and read_bandwidth, bytes per second, 0 (as at first) for no time at all.
 */
#define pr_fmt(fmt) "weir_disk: " fmt

#include <linux/blk-mq.h>
#include <linux/hrtimer.h>
#include <linux/io.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sysfs.h>

#define MOST_DISKS 16
#define QUEUE_DEPTH 256
#define SEGMENTS 254
/* QEMU's ivshmem, and which of its regions is the memory. */
#define IVSHMEM_VENDOR 0x1af4
#define IVSHMEM_DEVICE 0x1110
#define IVSHMEM_MEMORY 2
/* Since 6.14 queues merge unless told not to. */
#ifdef HAS_SHOULD_MERGE
#define MERGES BLK_MQ_F_SHOULD_MERGE
#else
#define MERGES 0
#endif

static unsigned long long size[MOST_DISKS];
static unsigned int disks;
module_param_array(size, ullong, &disks, 0444);
MODULE_PARM_DESC(size, "bytes of each disk, multiples of a page");

/* Requests that are served one after the other. */
struct line {
	spinlock_t lock; /* of all that follows */
	struct list_head waiting; /* the first is being served */
	struct hrtimer timer; /* the first one's end; armed while there is one */
	u64 bandwidth;
};

struct ram_disk {
	struct gendisk *gendisk;
	struct blk_mq_tag_set tags;
	struct pci_dev *memory;
	u8 *bytes;
	struct line lines[2]; /* by rq_data_dir() */
};

static struct ram_disk *all[MOST_DISKS];
static int major;

static u64 duration_ns(const struct line *line, const struct request *rq)
{
	return div64_u64((u64)blk_rq_bytes(rq) * NSEC_PER_SEC, line->bandwidth);
}

static struct list_head *link_of(struct request *rq)
{
	return blk_mq_rq_to_pdu(rq);
}

static enum hrtimer_restart serve_next(struct hrtimer *timer)
{
	struct line *line = container_of(timer, struct line, timer);
	enum hrtimer_restart again = HRTIMER_NORESTART;
	struct list_head *first;
	unsigned long flags;

	spin_lock_irqsave(&line->lock, flags);
	first = line->waiting.next;
	list_del(first);
	if (!list_empty(&line->waiting)) {
		hrtimer_add_expires_ns(timer, line->bandwidth ?
			duration_ns(line, blk_mq_rq_from_pdu(line->waiting.next)) : 0);
		again = HRTIMER_RESTART;
	}
	spin_unlock_irqrestore(&line->lock, flags);
	blk_mq_complete_request(blk_mq_rq_from_pdu(first));
	return again;
}

/*
 * For whole pages the kernel has functions without a string instruction: after each round
 * of one, an emulator that counts instructions leaves translated code.
 */
static void copy_bytes(void *to, const void *from, unsigned int len)
{
	if (len == PAGE_SIZE)
		copy_page(to, (void *)from);
	else
		memcpy(to, from, len);
}

static void transfer(struct ram_disk *disk, struct request *rq)
{
	u64 at = (u64)blk_rq_pos(rq) << SECTOR_SHIFT;
	struct req_iterator iterator;
	struct bio_vec part;

	rq_for_each_segment(part, rq, iterator) {
		u8 *buffer = bvec_kmap_local(&part);
		unsigned int done, len;

		for (done = 0; done < part.bv_len; done += len, at += len) {
			len = min_t(unsigned int, part.bv_len - done, PAGE_SIZE - offset_in_page(at));
			if (rq_data_dir(rq) == WRITE)
				copy_bytes(disk->bytes + at, buffer + done, len);
			else
				copy_bytes(buffer + done, disk->bytes + at, len);
		}
		kunmap_local(buffer);
	}
}

static blk_status_t queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *data)
{
	struct ram_disk *disk = hctx->queue->queuedata;
	struct request *rq = data->rq;
	struct line *line = &disk->lines[rq_data_dir(rq)];
	bool waits = false;

	blk_mq_start_request(rq);
	switch (req_op(rq)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		transfer(disk, rq);
		break;
	case REQ_OP_FLUSH: /* what was written is in memory, which is as safe as it gets here */
		blk_mq_end_request(rq, BLK_STS_OK);
		return BLK_STS_OK;
	default:
		return BLK_STS_NOTSUPP;
	}

	spin_lock_irq(&line->lock);
	if (line->bandwidth || !list_empty(&line->waiting)) {
		bool idle = list_empty(&line->waiting);

		waits = true;
		list_add_tail(link_of(rq), &line->waiting);
		if (idle)
			hrtimer_start(&line->timer, ns_to_ktime(duration_ns(line, rq)), HRTIMER_MODE_REL);
	}
	spin_unlock_irq(&line->lock);
	if (!waits)
		blk_mq_end_request(rq, BLK_STS_OK);
	return BLK_STS_OK;
}

static void complete_rq(struct request *rq)
{
	blk_mq_end_request(rq, BLK_STS_OK);
}

static const struct blk_mq_ops queue_operations = {
	.queue_rq = queue_rq,
	.complete = complete_rq,
};

static const struct block_device_operations operations = {
	.owner = THIS_MODULE,
};

static struct ram_disk *disk_of(struct device *dev)
{
	return dev_to_disk(dev)->private_data;
}

static ssize_t serial_show(struct device *dev, struct device_attribute *attr, char *text)
{
	return sysfs_emit(text, "weir-%d\n", dev_to_disk(dev)->first_minor / DISK_MAX_PARTS);
}
static DEVICE_ATTR_RO(serial);

static ssize_t show_bandwidth(struct line *line, char *text)
{
	return sysfs_emit(text, "%llu\n", READ_ONCE(line->bandwidth));
}

static ssize_t store_bandwidth(struct line *line, const char *text, size_t len)
{
	u64 bandwidth;
	int error = kstrtou64(text, 10, &bandwidth);

	if (error)
		return error;
	spin_lock_irq(&line->lock);
	line->bandwidth = bandwidth; /* from the next request on */
	spin_unlock_irq(&line->lock);
	return len;
}

#define BANDWIDTH(name, direction)                                                                      \
	static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *text)       \
	{                                                                                               \
		return show_bandwidth(&disk_of(dev)->lines[direction], text);                           \
	}                                                                                               \
	static ssize_t name##_store(struct device *dev, struct device_attribute *attr, const char *text, \
				    size_t len)                                                         \
	{                                                                                               \
		return store_bandwidth(&disk_of(dev)->lines[direction], text, len);                     \
	}                                                                                               \
	static DEVICE_ATTR_RW(name)

BANDWIDTH(write_bandwidth, WRITE);
BANDWIDTH(read_bandwidth, READ);

static struct attribute *disk_attrs[] = {
	&dev_attr_serial.attr,
	&dev_attr_write_bandwidth.attr,
	&dev_attr_read_bandwidth.attr,
	NULL,
};
ATTRIBUTE_GROUPS(disk);

/* Limits are given at allocation since 6.9, features of a disk with them since 6.11. */
#ifdef HAS_QUEUE_FEATURES
static struct gendisk *make_gendisk(struct ram_disk *disk)
{
	struct queue_limits limits = {
		.max_hw_sectors = UINT_MAX,
		.max_segments = SEGMENTS,
		.max_segment_size = UINT_MAX,
		.features = BLK_FEAT_WRITE_CACHE | BLK_FEAT_ROTATIONAL,
	};

	return blk_mq_alloc_disk(&disk->tags, &limits, disk);
}
#else
static struct gendisk *make_gendisk(struct ram_disk *disk)
{
	struct gendisk *made = blk_mq_alloc_disk(&disk->tags, disk);

	if (!IS_ERR(made)) {
		blk_queue_max_hw_sectors(made->queue, UINT_MAX);
		blk_queue_max_segments(made->queue, SEGMENTS);
		blk_queue_max_segment_size(made->queue, UINT_MAX);
		blk_queue_write_cache(made->queue, true, false);
	}
	return made;
}
#endif

static void remove(struct ram_disk *disk)
{
	if (!disk)
		return;
	if (disk->gendisk) {
		del_gendisk(disk->gendisk); /* waits for what is under way */
		put_disk(disk->gendisk);
	}
	if (disk->tags.tags)
		blk_mq_free_tag_set(&disk->tags);
	if (disk->bytes)
		memunmap(disk->bytes);
	pci_dev_put(disk->memory);
	kfree(disk);
}

/* Maps what the device with this index has of memory. */
static int map_memory(struct ram_disk *disk, unsigned int index)
{
	unsigned int before = index;
	int error;

	do
		disk->memory = pci_get_device(IVSHMEM_VENDOR, IVSHMEM_DEVICE, disk->memory);
	while (disk->memory && before--);
	if (!disk->memory)
		return -ENODEV;
	if (pci_resource_len(disk->memory, IVSHMEM_MEMORY) < size[index])
		return -ENOSPC;
	error = pci_enable_device_mem(disk->memory);
	if (error)
		return error;
	disk->bytes = memremap(pci_resource_start(disk->memory, IVSHMEM_MEMORY), size[index], MEMREMAP_WB);
	return disk->bytes ? 0 : -ENOMEM;
}

/* hrtimer_setup() since 6.13, the only way since 6.15. */
static void set_up_timer(struct hrtimer *timer)
{
#ifdef HAS_HRTIMER_SETUP
	hrtimer_setup(timer, serve_next, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	timer->function = serve_next;
#endif
}

static int add(unsigned int index)
{
	struct ram_disk *disk = kzalloc(sizeof(*disk), GFP_KERNEL);
	struct gendisk *gendisk;
	int direction, error;

	if (!disk)
		return -ENOMEM;
	for (direction = READ; direction <= WRITE; direction++) {
		struct line *line = &disk->lines[direction];

		spin_lock_init(&line->lock);
		INIT_LIST_HEAD(&line->waiting);
		set_up_timer(&line->timer);
	}
	error = map_memory(disk, index);
	if (error)
		goto failed;
	disk->tags.ops = &queue_operations;
	disk->tags.nr_hw_queues = 1;
	disk->tags.queue_depth = QUEUE_DEPTH;
	disk->tags.numa_node = NUMA_NO_NODE;
	disk->tags.cmd_size = sizeof(struct list_head);
	disk->tags.flags = MERGES | BLK_MQ_F_NO_SCHED_BY_DEFAULT;
	error = blk_mq_alloc_tag_set(&disk->tags);
	if (error)
		goto failed;
	gendisk = make_gendisk(disk);
	if (IS_ERR(gendisk)) {
		error = PTR_ERR(gendisk);
		goto failed;
	}
	gendisk->major = major;
	gendisk->first_minor = index * DISK_MAX_PARTS;
	gendisk->minors = DISK_MAX_PARTS;
	gendisk->fops = &operations;
	gendisk->private_data = disk;
	snprintf(gendisk->disk_name, sizeof(gendisk->disk_name), "weir%u", index);
	set_capacity(gendisk, size[index] >> SECTOR_SHIFT);
	error = device_add_disk(NULL, gendisk, disk_groups);
	if (error) {
		put_disk(gendisk);
		goto failed;
	}
	disk->gendisk = gendisk;
	all[index] = disk;
	return 0;

failed:
	remove(disk);
	return error;
}

static void __exit weir_disk_exit(void)
{
	unsigned int index;

	for (index = 0; index < disks; index++)
		remove(all[index]);
	unregister_blkdev(major, "weir_disk");
}

static int __init weir_disk_init(void)
{
	unsigned int index;
	int error = 0;

	for (index = 0; index < disks; index++) {
		if (!size[index] || !PAGE_ALIGNED(size[index])) {
			pr_err("size: %llu is not a number of pages\n", size[index]);
			return -EINVAL;
		}
	}
	major = register_blkdev(0, "weir_disk");
	if (major < 0)
		return major;
	for (index = 0; index < disks && !error; index++)
		error = add(index);
	if (error) {
		pr_err("disk %u of %llu bytes: error %d; is there an ivshmem device of that size for it?\n", index - 1, size[index - 1], error);
		for (index = 0; index < disks; index++)
			remove(all[index]);
		unregister_blkdev(major, "weir_disk");
	}
	return error;
}

module_init(weir_disk_init);
module_exit(weir_disk_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A disk in memory that takes its time, for guests that count instructions");
